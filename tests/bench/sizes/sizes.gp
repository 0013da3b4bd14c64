# What messages of each size cost, weir over the others: below 1 is good for times, above 1 for
# streams. From bench --only latency: data, picture.
set terminal svg size 960, 420 font "sans,10" background "white"
set output picture
set datafile separator ","
set datafile missing "-"
set logscale x 2
set xrange [1:4194304]
set xtics ("1" 1, "32" 32, "1K" 1024, "32K" 32768, "1M" 1048576)
set yrange [0.4:1.6]
set ytics 0.2
set grid ytics lc rgb "#e0e0e0"
set key horizontal top center
metrics = "used fresh exchange stream both"
titles = '"half a round trip, same buffers" "half a round trip, fresh pages" "exchange" "64 in flight, one way" "64 in flight, both ways"'
set multiplot layout 2, 3
do for [i = 1:5] {
  of = word(metrics, i)
  set title word(titles, i) . (i > 3 ? " (more is better)" : " (less is better)")
  plot 1 lc rgb "#808080" dt 3 notitle, \
       data using (strcol(1) eq of ? $2 : NaN):5 with linespoints lc rgb "#c04020" pt 7 ps 0.3 title "weir/UCX", \
       "" using (strcol(1) eq of ? $2 : NaN):6 with linespoints lc rgb "#4a78b0" pt 5 ps 0.3 title "weir/OFI"
}
