# How much faster applications are over weir than over the others; below 1 a peer is faster. From
# bench --only applications --csv: data, picture.
set terminal svg size 960, 340 font "sans,10" background "white"
set output picture
set datafile separator ","
set style fill solid 0.8 noborder
set boxwidth 0.25
set yrange [0:2]
set ytics 0.5
set grid ytics lc rgb "#e0e0e0"
set xtics rotate by 45 right scale 0
set bmargin 11
set lmargin 11
set rmargin 1
set key horizontal top center samplen 1
# Times, or rates: columns 9, 12 and 15 are weir's over UCX's, OFI's and tcp's.
gain(better, ratio) = better eq "less" ? 1 / ratio : ratio
rows(ranks, nodes) = sprintf("< sed -n '/resident/d; s/, %d ranks\"*,%d,/,%d,/; T; s/, / /g; s/\"//g; p' '%s'", \
                             ranks, nodes, nodes, data)
titles = '"2 ranks with a core each" "4 ranks on 2 CPUs" "2 x 2 ranks on two nodes"'
set multiplot layout 1, 3
do for [i = 1:3] {
  of = rows(i == 1 ? 2 : 4, i == 3 ? 2 : 1)
  if (system(of[3:] . " | wc -l") + 0 == 0) { continue }
  set title word(titles, i)
  if (i > 1) { set key off }
  plot 1 lc rgb "#808080" dt 3 notitle, \
       of using ($0 - 0.25):(gain(strcol(4), $9)):xtic(1) with boxes lc rgb "#c04020" title "UCX", \
       of using 0:(gain(strcol(4), $12)) with boxes lc rgb "#4a78b0" title "OFI", \
       of using ($0 + 0.25):(gain(strcol(4), $15)) with boxes lc rgb "#70a050" title "tcp"
}
