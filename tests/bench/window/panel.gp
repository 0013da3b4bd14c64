# What the small pictures have in common. eval panel("title,ranks") sets a picture's title and
# `of_panel`, its lines of the data.
set datafile separator ","
set style fill solid 0.6 noborder
set boxwidth 0.7
set xtics rotate by 90 right scale 0
set ytics nomirror
set y2tics 0, 0.5
set y2range [0:1.5]
set key off
title_of(name) = name[1:strstrt(name, ",") - 1]
ranks_of(name) = name[strstrt(name, ",") + 1:*]
panel(name) = sprintf("set title '%s, %s ranks'; ", title_of(name), ranks_of(name)) . \
  sprintf("of_panel = \"< awk -F, '$1 == \\\"%s\\\" && $2 == %s' '%s'\"", title_of(name), \
          ranks_of(name), data)
