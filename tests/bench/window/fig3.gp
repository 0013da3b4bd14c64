# [ARWS] figure 3: memory and speed as in figure 2, by RNR timer; the number above a bar is the
# RNR NAKs of a run.
# From arws: data, picture, loads ('"title,ranks" ...'), count.
set terminal svg size 420 * count, 260 font "sans,10" background "white"
set output picture
set multiplot layout 1, count
load system("dirname '" . ARG0 . "'") . "/panel.gp"
set yrange [0:0.6]
set ytics 0, 0.2
do for [i = 1:count] {
  eval panel(word(loads, i))
  plot of_panel using 6:8:(0.7) with boxes lc rgb "#c8d4e3", \
       "" using 6:7:xtic(3) with boxes lc rgb "#4a78b0", \
       "" using 6:8:($14 > 0 && $8 < 0.6 ? sprintf("%.0f", $14) : "") with labels \
          offset 0,0.5 font ",7", \
       1 axes x1y2 lc rgb "#808080" dt 3, \
       "" using 6:10:11:12 axes x1y2 with yerrorlines lc rgb "#c04020" pt 7 ps 0.4
}
