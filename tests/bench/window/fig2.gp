# [ARWS] figure 2, a small picture for each workload: bars are receive memory (MiB, left; dark the
# mean rank, light the largest, cut off at the top), the line is speed against the fixed window.
# From arws: data, picture, loads ('"title,ranks" ...'), count.
columns = count < 4 ? count : 4
rows = (count + columns - 1) / columns
set terminal svg size 270 * columns, 220 * rows font "sans,10" background "white"
set output picture
set multiplot layout rows, columns
load system("dirname '" . ARG0 . "'") . "/panel.gp"
set yrange [0:8.4]
set ytics 0, 4, 8
do for [i = 1:count] {
  eval panel(word(loads, i))
  plot of_panel using 6:8:(0.7) with boxes lc rgb "#c8d4e3", \
       "" using 6:7:xtic(3) with boxes lc rgb "#4a78b0", \
       1 axes x1y2 lc rgb "#808080" dt 3, \
       "" using 6:10:11:12 axes x1y2 with yerrorlines lc rgb "#c04020" pt 7 ps 0.4
}
