# [ARWS] figure 3: memory and speed by RNR timer, and above each bar the RNR NAKs of the run.
# From arws: data, picture, loads ("title,ranks|..."), count.
columns = count < 3 ? count : 3
rows = (count + columns - 1) / columns
set terminal svg size 420 * columns, 260 * rows font "sans,10" background "white"
set output picture
set datafile separator ","
set multiplot layout rows, columns
set style fill solid 0.6 noborder
set boxwidth 0.7
set xtics rotate by -45 scale 0
set ytics nomirror
set y2tics 0.2
set yrange [0:*]
set y2range [0:1.4]
set grid y2
set key off
# Field `i` of "a|b|c".
field(text, i) = i == 1 ? head(text) : field(tail(text), i - 1)
head(text) = strstrt(text, "|") ? text[1:strstrt(text, "|") - 1] : text
tail(text) = text[strstrt(text, "|") + 1:*]
do for [i = 1:count] {
  name = field(loads, i)
  title = name[1:strstrt(name, ",") - 1]
  ranks = name[strstrt(name, ",") + 1:*]
  set title title . ", " . ranks . " ranks"
  rows_of = sprintf("< awk -F, '$1 == \"%s\" && $2 == %s' '%s'", title, ranks, data)
  plot rows_of using 6:8:(0.7) with boxes lc rgb "#c8d4e3", \
       "" using 6:7:xtic(3) with boxes lc rgb "#4a78b0", \
       "" using 6:8:($14 > 0 ? sprintf("%.0f", $14) : "") with labels offset 0,0.5 font ",7", \
       "" using 6:10:11:12 axes x1y2 with yerrorlines lc rgb "#c04020" pt 7 ps 0.4, \
       1 axes x1y2 lc rgb "#808080" dt 3
}
