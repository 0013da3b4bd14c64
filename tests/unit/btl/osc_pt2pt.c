/* Stands in for the component of this name: overlap_test.cc. */
extern const int nothing;
const int nothing = 0;
