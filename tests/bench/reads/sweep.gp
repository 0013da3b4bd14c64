# Bandwidth by chunk size, a line for each c, a small picture for each fabric; the dotted line is
# one read a message.
# From rdrp: data, picture, fabrics.
set datafile separator ","
set terminal svg size 440 * words(fabrics), 300 font "sans,10" background "white"
set output picture
set multiplot layout 1, words(fabrics)
set logscale x 2
set xlabel "chunk, KiB"
set ylabel "MB/s"
set yrange [0:*]
set key outside right
set grid ytics lc rgb "#e0e0e0"
list = "1 2 4 8 16 auto"
colours = "#c8d4e3 #9db6d6 #7398c4 #4a78b0 #274d7d #c04020"
of(fabric, c) = sprintf("< awk -F, '$1 == \"%s\" && $3 == \"%s\" && $2 < 8388608' '%s'", fabric, c, data)
do for [fabric in fabrics] {
  set title fabric
  one = real(system(sprintf("awk -F, '$1 == \"%s\" && $2 == 8388608 && $3 == 16 {print $4}' '%s'", fabric, data)))
  plot one lc rgb "#808080" dt 3 title "one read", \
       for [i = 1:words(list)] of(fabric, word(list, i)) using ($2 / 1024):4 with linespoints \
         lc rgb word(colours, i) pt 7 ps 0.5 title "c ".word(list, i)
}
