// pvars.h: MPI_T performance variables whose names start with a prefix.
//
// Build a Counters after MPI_Init (counter-class variables read as the change since then), call
// read() or print() before MPI_Finalize, and let close() run before MPI_Finalize too: Open MPI
// 4.1.4 crashes with any transport when MPI_T_finalize comes after it. A prefix nobody registered
// gives an empty list.
#pragma once

#include <mpi.h>

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

class Counters {
 public:
  using Values = std::vector<std::pair<std::string, double>>;

  explicit Counters(std::string prefix = "btl_weir_") : prefix_(std::move(prefix)) {
    int level = MPI_THREAD_SINGLE, provided = 0;
    MPI_Query_thread(&level);  // Open MPI 4.1.4 takes what MPI_T is asked for as MPI's own level
    if (MPI_T_init_thread(level, &provided) != MPI_SUCCESS) return;
    open_ = true;
    if (MPI_T_pvar_session_create(&session_) != MPI_SUCCESS) return;
    has_session_ = true;
    int total = 0;
    MPI_T_pvar_get_num(&total);
    for (int index = 0; index < total; ++index) add(index);
  }
  ~Counters() { close(); }
  Counters(const Counters&) = delete;
  Counters& operator=(const Counters&) = delete;

  // Scalars as NAME, vectors as NAME[i].
  Values read() {
    Values values;
    for (Variable& v : variables_) {
      std::vector<unsigned char> raw(static_cast<std::size_t>(v.count) * 8);
      if (MPI_T_pvar_read(session_, v.handle, raw.data()) != MPI_SUCCESS) continue;
      for (int i = 0; i < v.count; ++i)
        values.emplace_back(v.count == 1 ? v.name : v.name + "[" + std::to_string(i) + "]",
                            number(v.type, raw.data(), i));
    }
    return values;
  }

  // Collective in `comm`. One line each from its rank 0: "counter NAME min MIN max MAX sum SUM".
  void print(MPI_Comm comm) {
    const Values values = read();  // before the traffic of the reductions below
    int rank = 0;
    int shortest = 0, count = static_cast<int>(values.size());
    MPI_Comm_rank(comm, &rank);
    MPI_Allreduce(&count, &shortest, 1, MPI_INT, MPI_MIN, comm);
    std::vector<double> mine, low(shortest), high(shortest), sum(shortest);
    for (int i = 0; i < shortest; ++i) mine.push_back(values[i].second);
    MPI_Reduce(mine.data(), low.data(), shortest, MPI_DOUBLE, MPI_MIN, 0, comm);
    MPI_Reduce(mine.data(), high.data(), shortest, MPI_DOUBLE, MPI_MAX, 0, comm);
    MPI_Reduce(mine.data(), sum.data(), shortest, MPI_DOUBLE, MPI_SUM, 0, comm);
    if (rank != 0) return;
    for (int i = 0; i < shortest; ++i)
      std::printf("counter %s min %.0f max %.0f sum %.0f\n", values[i].first.c_str(), low[i],
                  high[i], sum[i]);
    if (shortest == 0) std::printf("counter: none starts with %s\n", prefix_.c_str());
    std::fflush(stdout);
  }

  void close() {
    if (!open_) return;
    for (Variable& v : variables_) MPI_T_pvar_handle_free(session_, &v.handle);
    variables_.clear();
    if (has_session_) MPI_T_pvar_session_free(&session_);
    MPI_T_finalize();
    open_ = has_session_ = false;
  }

 private:
  struct Variable {
    std::string name;
    MPI_Datatype type;
    int count;
    MPI_T_pvar_handle handle;
  };

  void add(int index) {
    char name[256];
    int name_length = sizeof name, no_text = 0;
    int verbosity, variable_class, bind, readonly, continuous, atomic;
    MPI_Datatype type;
    MPI_T_enum enumeration;
    if (MPI_T_pvar_get_info(index, name, &name_length, &verbosity, &variable_class, &type,
                            &enumeration, nullptr, &no_text, &bind, &readonly, &continuous,
                            &atomic) != MPI_SUCCESS)
      return;
    if (std::string(name).rfind(prefix_, 0) != 0 || bind != MPI_T_BIND_NO_OBJECT) return;
    Variable v{name, type, 0, nullptr};
    if (MPI_T_pvar_handle_alloc(session_, index, nullptr, &v.handle, &v.count) != MPI_SUCCESS)
      return;
    if (!continuous) MPI_T_pvar_start(session_, v.handle);
    variables_.push_back(v);
  }

  static double number(MPI_Datatype type, const void* raw, int i) {
    if (type == MPI_DOUBLE) return static_cast<const double*>(raw)[i];
    if (type == MPI_INT) return static_cast<const int*>(raw)[i];
    if (type == MPI_UNSIGNED) return static_cast<const unsigned*>(raw)[i];
    return static_cast<double>(static_cast<const unsigned long long*>(raw)[i]);
  }

  std::string prefix_;
  MPI_T_pvar_session session_ = nullptr;
  bool open_ = false, has_session_ = false;
  std::vector<Variable> variables_;
};

// For programs that measure: each message takes some .3 to .8 us longer once MPI_T is initialised,
// under any transport, so that comes when all is measured. Shows variables of class "level", as
// weir's are, from the process's beginning.
inline void print_counters(MPI_Comm comm) {
  Counters counters;
  counters.print(comm);
}
