# How many times as good as the others weir is. draw() sets picture and data.
set terminal svg size 720,320 font "sans,10" background "white"
set output picture
set datafile separator ","
set title "weir, a first run: better where above 1"
set ylabel "times as good as the other"
set style data histogram
set style histogram clustered gap 1
set style fill solid border -1
set logscale y 2
set yrange [0.0625:16]
set grid ytics lc rgb "#e0e0e0"
set key top left
plot data every ::1 using 2:xtic(1) title "beside raw verbs" lc rgb "#9db6d6", \
     data every ::1 using 3 title "beside btl tcp" lc rgb "#274d7d", \
     1 lc rgb "#808080" dt 3 notitle
