// Makes Open MPI's C headers fit for C++20, and covers everything that differs between Open MPI
// 4.1, 5.0 and 6.0. No other file includes an Open MPI header or depends on its version.
#pragma once

// 1. The headers that Open MPI's headers include, first and outside of extern "C". Seventeen of
// Open MPI's own headers lack extern "C", so all of these are included inside one.
#include <arpa/inet.h>
#include <assert.h>
#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/param.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>
#if __has_include(<event.h>)
#include <event.h>
#endif
#if __has_include(<hwloc.h>)
#include <hwloc.h>
#endif

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

extern "C" {
#include <opal_config.h>
}

#if OPAL_MAJOR_VERSION >= 5
#include <pmix.h>
#elif defined(__aarch64__)
// 4.1 keeps its atomics for ARM, which are assembler, from C++. GCC's do the same.
extern "C" {
#include <opal/sys/architecture.h>
}
#undef OPAL_ASSEMBLY_BUILTIN
#define OPAL_ASSEMBLY_BUILTIN OPAL_BUILTIN_GCC
#endif

// 2. Some headers open more braces with BEGIN_C_DECLS than they close, so only our block counts.
#undef BEGIN_C_DECLS
#undef END_C_DECLS
#define BEGIN_C_DECLS
#define END_C_DECLS
#define _Static_assert static_assert  // the C keyword, in headers of 6.0

extern "C" {
#include <opal/class/opal_bitmap.h>
#include <opal/class/opal_pointer_array.h>
#include <opal/datatype/opal_convertor.h>
#include <opal/mca/base/mca_base_pvar.h>
#include <opal/mca/base/mca_base_var.h>
#include <opal/mca/btl/base/base.h>
#include <opal/mca/btl/btl.h>
#include <opal/mca/memory/base/base.h>
#include <opal/mca/patcher/patcher.h>
#include <opal/memoryhooks/memory.h>
#include <opal/memoryhooks/memory_internal.h>
#include <opal/runtime/opal.h>
#include <opal/util/output.h>
#include <opal/util/proc.h>
#if OPAL_MAJOR_VERSION >= 5
#include <opal/mca/pmix/pmix-internal.h>
#include <opal/mca/threads/thread_usage.h>
#else
#include <opal/dss/dss.h>
#include <opal/mca/pmix/pmix.h>
#include <opal/runtime/opal_params.h>
#include <opal/threads/thread_usage.h>
#endif
}

#undef _Static_assert

namespace weir::btl {

// ---- the component ----

#if OPAL_MAJOR_VERSION >= 5
#define WEIR_BTL_INTERFACE MCA_BTL_BASE_VERSION_3_3_0
#else
#define WEIR_BTL_INTERFACE MCA_BTL_BASE_VERSION_3_1_0
#endif

// Up to 4.1, an Open MPI that was built with CUDA has more fields in a module, in front of some
// that we set.
inline bool has_the_same_modules() {
#if OPAL_MAJOR_VERSION < 5
  return opal_built_with_cuda_support == (OPAL_CUDA_SUPPORT != 0);
#else
  return true;
#endif
}

// The loader's own checks do not protect us, and a mismatch is a crash in the first callback.
inline bool made_for_this_open_mpi() {
  const std::string prefix =
      std::to_string(OPAL_MAJOR_VERSION) + "." + std::to_string(OPAL_MINOR_VERSION) + ".";
  return std::string(opal_version_string).rfind(prefix, 0) == 0 &&
         mca_btl_base_descriptor_t_class.cls_sizeof == sizeof(mca_btl_base_descriptor_t) &&
         opal_proc_t_class.cls_sizeof == sizeof(opal_proc_t) && has_the_same_modules();
}

// ---- the module ----

// A put that is complete here is complete at the target: a reliable connection qualifies. Open MPI
// asks for it from 5.0 on.
#ifdef MCA_BTL_FLAGS_RDMA_REMOTE_COMPLETION
inline constexpr std::uint32_t remote_completion_flag = MCA_BTL_FLAGS_RDMA_REMOTE_COMPLETION;
#else
inline constexpr std::uint32_t remote_completion_flag = 0;
#endif

// The module's flags on a device that can do everything.
inline constexpr std::uint32_t module_flags = MCA_BTL_FLAGS_SEND | MCA_BTL_FLAGS_RDMA |
                                              MCA_BTL_FLAGS_RDMA_FLUSH | MCA_BTL_FLAGS_ATOMIC_OPS |
                                              MCA_BTL_FLAGS_ATOMIC_FOPS | remote_completion_flag;

// Checkpoint and restart: a stub in 4.1, removed since.
inline void set_ft_event([[maybe_unused]] mca_btl_base_module_t& module) {
#if OPAL_MAJOR_VERSION < 5
  module.btl_ft_event = [](int) { return static_cast<int>(OPAL_SUCCESS); };
#endif
}

// Whether the receive upcall must name the sender's endpoint.
inline constexpr bool upcall_names_endpoint = OPAL_MAJOR_VERSION >= 5;

// The shortest message of every version of ob1: the header of a message without data, without its
// padding.
inline constexpr std::size_t shortest_ob1_header = 14;

// The least that ob1 reads of a message, by tag: its headers in pml_ob1_hdr.h, alike in 4.1, 5.0
// and 6.0. The handle behind two of them tells by itself whether it is whole (exported.h). Others
// than ob1 read no more than there is.
inline constexpr auto least_read = [] {
  std::array<std::uint8_t, 256> bytes{};
  for (int tag = MCA_BTL_TAG_PML; tag < MCA_BTL_TAG_OSC_RDMA; ++tag) {
    bytes[static_cast<std::size_t>(tag)] = shortest_ob1_header;
  }
  bytes[MCA_BTL_TAG_PML + 2] = 32;  // rendezvous
  bytes[MCA_BTL_TAG_PML + 3] = 48;  // rendezvous by a get
  bytes[MCA_BTL_TAG_PML + 4] = 40;  // answer
  bytes[MCA_BTL_TAG_PML + 6] = 32;  // fragment
  bytes[MCA_BTL_TAG_PML + 8] = 56;  // put
  bytes[MCA_BTL_TAG_PML + 9] = 24;  // end of a transfer
  if (OPAL_MAJOR_VERSION >= 5) bytes[MCA_BTL_TAG_PML + 10] = 32;  // number of a communicator
  return bytes;
}();

// ob1 reads a whole header, whatever the length is, and drops some that are too short silently.
inline bool too_short_for_ob1(mca_btl_base_tag_t tag, std::size_t length) {
  return length < least_read[tag];
}

// Hands one message up. The payload may be reused as soon as this returns. False: it is too short
// for its receiver, and was not handed up.
inline bool deliver(mca_btl_base_module_t& module,
                    [[maybe_unused]] mca_btl_base_endpoint_t* endpoint, mca_btl_base_tag_t tag,
                    const void* payload, std::size_t length) {
  if (too_short_for_ob1(tag, length)) [[unlikely]]
    return false;
  mca_btl_base_segment_t segment;
  segment.seg_addr.pval = const_cast<void*>(payload);
  segment.seg_len = length;
  const mca_btl_active_message_callback_t& receiver = mca_btl_base_active_message_trigger[tag];
#if OPAL_MAJOR_VERSION >= 5
  const mca_btl_base_receive_descriptor_t message = {.endpoint = endpoint,
                                                     .des_segments = &segment,
                                                     .des_segment_count = 1,
                                                     .tag = tag,
                                                     .cbdata = receiver.cbdata};
  receiver.cbfunc(&module, &message);
#else
  mca_btl_base_descriptor_t message;  // the callee only reads the segments
  message.des_segments = &segment;
  message.des_segment_count = 1;
  receiver.cbfunc(&module, tag, &message, receiver.cbdata);
#endif
  return true;
}

// Whether Open MPI may send a descriptor of its own again, with other bytes, once it is complete.
// It does so for one-sided operations by messages, which it uses if a BTL lacks some of them.
inline constexpr bool sends_descriptors_again = OPAL_MAJOR_VERSION >= 5;

// The status of a send to a failed peer. ob1 of 4.1 aborts on any error here, before the report
// that names the peer; instead, the error callback that follows the report aborts.
inline constexpr int undelivered = OPAL_MAJOR_VERSION >= 5 ? OPAL_ERR_UNREACH : OPAL_SUCCESS;

// ---- the runtime ----

struct Free {
  void operator()(void* memory) const { free(memory); }
};

#if OPAL_MAJOR_VERSION >= 5
// How often this process has published: sessions begin and end MPI several times. On other nodes
// the runtime keeps what it has read once, so from the second time on there is a key for each time,
// too.
inline unsigned incarnation = 0;

inline std::string key_of_incarnation(const mca_base_component_t& component) {
  const std::unique_ptr<char, Free> key(mca_base_component_to_string(&component));
  return std::string(key != nullptr ? key.get() : "") + "#" + std::to_string(incarnation);
}
#endif

inline int publish(const mca_base_component_t& component, const void* data, std::size_t size) {
  int rc = OPAL_SUCCESS;
  auto* const key_owner = const_cast<mca_base_component_t*>(&component);
  auto* const bytes = const_cast<void*>(data);
  const auto length = static_cast<std::int32_t>(size);
#if OPAL_MAJOR_VERSION >= 5
  OPAL_MODEX_SEND(rc, PMIX_GLOBAL, key_owner, bytes, length);
  if (rc == OPAL_SUCCESS && ++incarnation > 1)
    OPAL_MODEX_SEND_STRING(rc, PMIX_GLOBAL, key_of_incarnation(component).c_str(), bytes, length);
#else
  OPAL_MODEX_SEND(rc, OPAL_PMIX_GLOBAL, key_owner, bytes, length);
#endif
  return rc;
}

struct Published {
  std::unique_ptr<std::uint8_t, Free> bytes;
  std::size_t size = 0;
};

// What `proc` published for the same component; empty if nothing. May ask the runtime's server. A
// process that published again expects that of its peers.
inline Published published(const mca_base_component_t& component, const opal_proc_t& proc) {
  int rc = OPAL_SUCCESS;
  std::uint8_t* bytes = nullptr;
  std::size_t size = 0;
  auto* const name = const_cast<opal_process_name_t*>(&proc.proc_name);
#if OPAL_MAJOR_VERSION >= 5
  if (incarnation > 1)
    OPAL_MODEX_RECV_STRING(rc, key_of_incarnation(component).c_str(), name, &bytes, &size);
  if (incarnation <= 1 || rc != OPAL_SUCCESS)
#endif
    OPAL_MODEX_RECV(rc, const_cast<mca_base_component_t*>(&component), name, &bytes, &size);
  Published result{std::unique_ptr<std::uint8_t, Free>(bytes), size};
  return rc == OPAL_SUCCESS ? std::move(result) : Published{};
}

// Open MPI 5 leaves the runtime before it closes its BTLs. From here on this process stays there
// until it leaves, too.
#if OPAL_MAJOR_VERSION >= 5
inline pmix_proc_t runtime_self;
#endif

inline bool stay_with_runtime() {
#if OPAL_MAJOR_VERSION >= 5
  return PMIx_Init(&runtime_self, nullptr, 0) == PMIX_SUCCESS;
#else
  return true;
#endif
}

inline void leave_runtime() {
#if OPAL_MAJOR_VERSION >= 5
  PMIx_Finalize(nullptr, 0);
#endif
}

// What processes that have stayed tell each other when they end.
inline std::string key_of_last_words() {
#if OPAL_MAJOR_VERSION >= 5
  return "weir.last_words#" + std::to_string(incarnation);
#else
  return "weir.last_words";
#endif
}

// Publishes this process's last words, and waits until all processes of the job have done so. False
// if `patience` is over before, because one of them is dead, say, or does not use weir.
inline bool exchange_last_words(const void* data, std::size_t size,
                                std::chrono::milliseconds patience) {
  struct Fence {
    std::atomic<int> ended{0};  // 1: well
#if OPAL_MAJOR_VERSION >= 5
    pmix_info_t collects;
#endif
  };
  auto fence = std::make_unique<Fence>();
  const auto on_end = [](int status, void* data) {
    static_cast<Fence*>(data)->ended.store(status == OPAL_SUCCESS ? 1 : 2);
  };
  std::string key = key_of_last_words();
  auto* const bytes = const_cast<void*>(data);
  const auto length = static_cast<std::int32_t>(size);
  int rc = OPAL_SUCCESS;
#if OPAL_MAJOR_VERSION >= 5
  OPAL_MODEX_SEND_STRING(rc, PMIX_GLOBAL, key.c_str(), bytes, length);
  if (rc == OPAL_SUCCESS) rc = PMIx_Commit();
  const bool yes = true;
  PMIX_INFO_LOAD(&fence->collects, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
  if (rc == PMIX_SUCCESS) {
    rc = PMIx_Fence_nb(nullptr, 0, &fence->collects, 1, on_end, fence.get());
  }
#else
  OPAL_MODEX_SEND_STRING(rc, OPAL_PMIX_GLOBAL, key.data(), bytes, length);
  if (rc == OPAL_SUCCESS) rc = opal_pmix.commit();
  if (rc == OPAL_SUCCESS) rc = opal_pmix.fence_nb(nullptr, 1, on_end, fence.get());
#endif
  if (rc != OPAL_SUCCESS) return false;
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (fence->ended.load() == 0) {
    if (std::chrono::steady_clock::now() >= deadline) {
      // The runtime may still call back: this library stays.
      Dl_info self{};
      if (dladdr(reinterpret_cast<void*>(+on_end), &self) != 0) {
        dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
      }
      fence.release();
      return false;
    }
    usleep(1000);
  }
  return fence->ended.load() == 1;
}

// Once they were exchanged. Of a process that is dead the fence has none, and nobody may wait for
// them.
inline Published last_words_of(opal_process_name_t name) {
  int rc = OPAL_SUCCESS;
  std::uint8_t* bytes = nullptr;
  std::size_t size = 0;
  const std::string key = key_of_last_words();
#if OPAL_MAJOR_VERSION >= 5
  // Open MPI no longer knows the name of the job by then.
  pmix_proc_t proc;
  PMIX_LOAD_PROCID(&proc, runtime_self.nspace, name.vpid);
  pmix_info_t at_once;
  PMIX_INFO_LOAD(&at_once, PMIX_IMMEDIATE, nullptr, PMIX_BOOL);
  pmix_value_t* value = nullptr;
  rc = PMIx_Get(&proc, key.c_str(), &at_once, 1, &value);
  if (rc == PMIX_SUCCESS && value != nullptr && value->type == PMIX_BYTE_OBJECT) {
    bytes = reinterpret_cast<std::uint8_t*>(std::exchange(value->data.bo.bytes, nullptr));
    size = value->data.bo.size;
  }
  if (value != nullptr) PMIX_VALUE_RELEASE(value);
#else
  OPAL_MODEX_RECV_STRING(rc, key.c_str(), &name, &bytes, &size);
#endif
  Published result{std::unique_ptr<std::uint8_t, Free>(bytes), size};
  return rc == OPAL_SUCCESS ? std::move(result) : Published{};
}

// How many processes this job has; 0 if the runtime does not say.
inline std::uint32_t job_size() {
#if OPAL_MAJOR_VERSION >= 5
  return opal_process_info.num_procs;
#else
  opal_process_name_t job = opal_proc_local_get()->proc_name;
  job.vpid = OPAL_VPID_WILDCARD;
  std::uint32_t size = 0;
  std::uint32_t* const at = &size;
  int rc = OPAL_SUCCESS;
  OPAL_MODEX_RECV_VALUE_OPTIONAL(rc, OPAL_PMIX_JOB_SIZE, &job, &at, OPAL_UINT32);
  return rc == OPAL_SUCCESS ? size : 0;
#endif
}

// ---- processes that die while the job goes on ----

inline constexpr bool deaths_may_be_survivable = OPAL_MAJOR_VERSION >= 5;

// Whether the loss of a process is an error for the program, and not the end of the job (mpirun
// --with-ft ulfm).
inline bool deaths_are_survivable() {
#if OPAL_MAJOR_VERSION >= 5
  const int index = mca_base_var_find("ompi", "mpi", "ft", "enable");
  const bool* enabled = nullptr;
  return index >= 0 &&
         mca_base_var_get_value(index, static_cast<void*>(&enabled), nullptr, nullptr) ==
             OPAL_SUCCESS &&
         enabled != nullptr && *enabled;
#else
  return false;
#endif
}

// Whether Open MPI takes the process for dead: the first field behind those that we know of
// (ompi_proc_t::proc_active, ompi/proc/proc.h). Call where deaths are survivable.
inline bool counts_as_dead(const opal_proc_t& proc) {
  return !*reinterpret_cast<const volatile bool*>(&proc + 1);
}

// Whether an operation is the PML's: its callback's context is bml/r2's record of the endpoint
// (mca_bml_base_btl_t, ompi/mca/bml/bml.h). osc/rdma's contexts are longer, or not aligned.
inline bool is_of_pml(const void* context, const mca_btl_base_module_t* btl,
                      const mca_btl_base_endpoint_t* endpoint) {
  struct Record {
    std::uint32_t flags;
    float weight;
    const mca_btl_base_module_t* btl;
    const mca_btl_base_endpoint_t* endpoint;
  };
  if (context == nullptr || reinterpret_cast<std::uintptr_t>(context) % alignof(Record) != 0)
    return false;
  Record record;
  std::memcpy(&record, context, sizeof record);
  return record.btl == btl && record.endpoint == endpoint;
}

// The runtime's news that processes died. Open MPI hears it after us, once we `pass_on`.
#if OPAL_MAJOR_VERSION >= 5
class DeathNews {
 public:
  DeathNews(pmix_event_notification_cbfunc_fn_t next, void* data) : next_(next), data_(data) {}
  void pass_on() const {
    if (next_ != nullptr) next_(PMIX_EVENT_NO_ACTION_TAKEN, nullptr, 0, nullptr, nullptr, data_);
  }

 private:
  pmix_event_notification_cbfunc_fn_t next_;
  void* data_;
};

// From here on, a thread of the runtime calls `on_death(std::vector<opal_process_name_t>,
// DeathNews)`. Returns what ends that, or a negative number.
template <auto on_death>
std::int64_t hear_of_deaths() {
  // Those for which Open MPI 5 takes a process as failed (ompi/instance/instance.c).
  pmix_status_t events[] = {PMIX_ERR_PROC_TERM_WO_SYNC, PMIX_ERR_PROC_ABORTED_BY_SIG,
                            PMIX_ERR_PROC_ABORTED};
  pmix_info_t first;
  bool yes = true;
  PMIX_INFO_LOAD(&first, PMIX_EVENT_HDLR_PREPEND, &yes, PMIX_BOOL);
  const pmix_notification_fn_t handler =
      [](std::size_t, pmix_status_t, const pmix_proc_t*, pmix_info_t* info, std::size_t count,
         pmix_info_t*, std::size_t, pmix_event_notification_cbfunc_fn_t next, void* data) {
        std::vector<opal_process_name_t> dead;
        for (std::size_t i = 0; i < count; ++i) {
          if (info[i].value.type != PMIX_PROC) continue;
          opal_process_name_t name;
          int rc = OPAL_SUCCESS;
          OPAL_PMIX_CONVERT_PROCT(rc, &name, info[i].value.data.proc);
          if (rc == OPAL_SUCCESS) dead.push_back(name);
        }
        on_death(dead, DeathNews(next, data));
      };
  return PMIx_Register_event_handler(events, std::size(events), &first, 1, handler, nullptr,
                                     nullptr);
}
inline void hear_no_more(std::int64_t hearing) {
  PMIx_Deregister_event_handler(static_cast<std::size_t>(hearing), nullptr, nullptr);
}
#else
struct DeathNews {
  void pass_on() const {}
};
template <auto on_death>
std::int64_t hear_of_deaths() {
  return -1;
}
inline void hear_no_more(std::int64_t) {}
#endif

// The state of MPI from the begin of MPI_Init on, and after it, before MPI_Finalize
// (ompi_mpi_state_t).
inline constexpr std::int32_t mpi_is_being_made = 1;
inline constexpr std::int32_t mpi_is_ready = 2;
inline constexpr const char* libmpi_name = "libmpi.so.40";

// Why no second thread may call ob1 on this kind of processor and under this version; "" if one
// may. ob1 keeps messages of communicators that it does not know yet in a list without a lock. Up
// to 5.0, processes agree on a new communicator before they use it (comm_cid.c); 6.0 leaves that
// out for intercommunicators.
//
// Off x86-64, ob1's locks of requests lack barriers (lock_send_request, lock_recv_request), and so
// do the ends of requests (ompi_request_complete, rget_completion) and waits (WAIT_SYNC_RELEASE),
// up to 4.1.8 and 5.0.10. Their branches v5.0.x and v6.0.x have them since 2026.
inline constexpr const char* why_no_second_thread =
#ifndef __x86_64__
    "ob1 lacks barriers that this kind of processor needs, up to Open MPI 5.0.10";
#elif OPAL_MAJOR_VERSION >= 6
    "this Open MPI keeps early messages of intercommunicators without a lock, from 6.0 on";
#else
    "";
#endif

// Whether only the application's threads may hand up messages with this tag: those of
// MPI_Comm_create_from_group, the exception in 5.0 to that agreement, which ob1 looks up in a table
// without a lock; and news of failed processes.
inline bool is_for_application([[maybe_unused]] mca_btl_base_tag_t tag) {
#if OPAL_MAJOR_VERSION >= 5
  constexpr mca_btl_base_tag_t ob1_cid_tag = MCA_BTL_TAG_PML + 10;
  constexpr mca_btl_base_tag_t ft_tags = 0x30;  // MCA_BTL_TAG_FT_*: not in every build
  return tag == ob1_cid_tag || (tag & 0xf0) == ft_tags;
#else
  return false;
#endif
}

// Makes ob1 lock the data that a second thread of ours uses. ob1 reads it when it gets the module.
inline constexpr std::uint32_t second_thread_flag = MCA_BTL_FLAGS_BTL_PROGRESS_THREAD_ENABLED;

// ---- ob1's headers, alike in 4.1, 5.0 and 6.0 (pml_ob1_hdr.h) ----

inline constexpr mca_btl_base_tag_t ob1_match_tag = MCA_BTL_TAG_PML + 1;
inline constexpr mca_btl_base_tag_t ob1_rendezvous_tag = MCA_BTL_TAG_PML + 2;
inline constexpr mca_btl_base_tag_t ob1_ack_tag = MCA_BTL_TAG_PML + 4;
// A fragment of a large message that is copied. Those of one message need their order: for some
// derived types opal_convertor_generic_simple_position writes behind its stack, over ob1's request,
// when it goes back and forth often (4.1.4 and 5.0.7). Of a matrix's columns 337 of 3,000 random
// orders did that, and none of 5,974 in which one block came late, as after an outage.
inline constexpr mca_btl_base_tag_t ob1_fragment_tag = MCA_BTL_TAG_PML + 6;

// ob1's longest header, which it takes off the eager limit.
inline constexpr std::size_t ob1_longest_header = OPAL_MAJOR_VERSION >= 5 ? 80 : 56;

// The header of a rendezvous begins with that of a match, whose last bytes of padding a message
// leaves out.
struct Ob1Rendezvous {
  std::uint8_t type;
  std::array<std::uint8_t, 15> match;
  std::uint64_t message_bytes;
  std::uint64_t request;  // of the sender; comes back in the answer
};
static_assert(sizeof(Ob1Rendezvous) == 32);
inline constexpr bool is_ob1_match(std::size_t header_bytes) {
  return header_bytes == shortest_ob1_header || header_bytes == sizeof(Ob1Rendezvous) / 2;
}
// Where an answer has the sender's request.
inline constexpr std::size_t ob1_ack_request_at = 8;
// The request is an address at the sender, so an odd number is no request.
inline constexpr std::uint64_t request_of_train(std::uint64_t bytes) { return bytes << 1 | 1; }

// The end of a large message, which the receiver's software need not answer.
inline constexpr mca_btl_base_tag_t ob1_fin_tag = MCA_BTL_TAG_PML + 9;

// ob1 marks messages that the receiver's software has to answer.
inline bool needs_answer(std::uint32_t des_flags, mca_btl_base_tag_t tag) {
  return (des_flags & MCA_BTL_DES_FLAGS_SIGNAL) != 0 && tag != ob1_fin_tag;
}

// The payload is in the memory of a GPU: packing it waits for a copy from there.
inline bool is_on_gpu(const opal_convertor_t& convertor) {
#if OPAL_MAJOR_VERSION >= 5
  return (convertor.flags & CONVERTOR_ACCELERATOR) != 0;
#else
  return (convertor.flags & CONVERTOR_CUDA) != 0;
#endif
}

// False if the user's choice of a PML excludes ob1.
inline bool may_be_used_by_ob1() {
  const int index = mca_base_var_find("ompi", "pml", nullptr, nullptr);
  const char* const* choice = nullptr;
  if (index < 0 ||
      mca_base_var_get_value(index, static_cast<void*>(&choice), nullptr, nullptr) !=
          OPAL_SUCCESS ||
      choice == nullptr || *choice == nullptr || **choice == 0) {
    return true;
  }
  const bool names_ob1 = std::string(*choice).find("ob1") != std::string::npos;
  return names_ob1 != (**choice == '^');
}

// The job's processes on this node, with this one; 1 in ompi_info.
inline std::uint32_t processes_on_node() {
  return static_cast<std::uint32_t>(opal_process_info.num_local_peers) + 1;
}
// More of them than processors.
inline bool node_is_full() { return processes_on_node() > sysconf(_SC_NPROCESSORS_ONLN); }
inline bool first_on_node() { return opal_process_info.my_local_rank == 0; }

// Whether the user listed this component: then it must not fail silently.
inline bool asked_for(const char* component) {
  const char* const list = opal_btl_base_framework.framework_selection;
  if (list == nullptr || list[0] == '^') return false;
  const std::string wrapped = "," + std::string(list) + ",";
  return wrapped.find("," + std::string(component) + ",") != std::string::npos;
}

inline int verbose_stream() { return opal_btl_base_framework.framework_output; }

}  // namespace weir::btl
