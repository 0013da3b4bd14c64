# Overlap in percent: a group of bars for each case, a bar for each library. Where both compute it is
# the lesser of the two.
# From overlap: data, picture, count (libraries).
set datafile separator ","
set terminal svg size 900, 320 font "sans,10" noenhanced background "white"
set output picture
set style data histograms
set style histogram clustered gap 1.5
set style fill solid 0.8 noborder
set boxwidth 0.9
set yrange [0:100]
set ytics 25
set ylabel "overlap, %"
set grid ytics lc rgb "#e0e0e0"
set key autotitle columnheader outside top center horizontal
set xtics rotate by 20 right scale 0
colours = "#e8a890 #c04020 #801810 #4a78b0 #a0a0a0 #606060 #b8d8a0 #5a9040"
plot for [i = 2:count + 1] data using i:xtic(1) lc rgb word(colours, i - 1)
