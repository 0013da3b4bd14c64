// table1.h: the seven ways two receives can meet two sends, s1 with tag t1 and s2 with tag t2
// [RDRP Table 1].
#pragma once

constexpr int kTag1 = 1, kTag2 = 2, kAny = -1;  // MPI_ANY_TAG

struct Row {
  const char* name;
  int receive[2];  // the tags of r1 and r2
  int match[2];    // which receive s1 and s2 meet: 0, 1, or -1 for none
};
constexpr Row kTable1[] = {
    {"recv(t1); recv(t2)", {kTag1, kTag2}, {0, 1}}, {"recv(t2); recv(t1)", {kTag2, kTag1}, {1, 0}},
    {"recv(*); recv(*)", {kAny, kAny}, {0, 1}},     {"recv(*); recv(t2)", {kAny, kTag2}, {0, 1}},
    {"recv(*); recv(t1)", {kAny, kTag1}, {0, -1}},  {"recv(t1); recv(*)", {kTag1, kAny}, {0, 1}},
    {"recv(t2); recv(*)", {kTag2, kAny}, {1, 0}},
};
// The paper prints "s1 <-> r1; s2 <-> r2" for its last row too, but r1 asks for t2 and s1 carries
// t1: by MPI's rules s2 meets r1, and s1 is left for r2.
