// btl_calls: calls the component in place of ob1 and osc/rdma, as they seldom do. Descriptors are
// given back unsent; fragments are sent, without a look at what is over, until no more are taken;
// messages are announced that nobody reads; sums are made whose result nobody wants; atomics are
// asked for that adapters cannot do; and a get is for memory that the peer never registered, which
// must end neither well nor silently.
//
//   mpirun -n 2 --mca btl_weir_send_memory_max 16MiB btl_calls [--send-memory 16M]
//          [--fragments 5000] [--leave]
//
// --send-memory is that of the parameter.
// --leave: rank 0 kills rank 1, leaves it, and ends; with mpirun --enable-recovery.
// Leaks of memory are reported in MPI_Finalize (check_leaks).

#include <mpi.h>
#include <sys/mman.h>

#include <algorithm>
#include <vector>

#include "check.h"
#include "transport/btl/compat.h"

// In headers of 6.0, which are C alone (so there is -fpermissive, too).
#define _Alignof alignof
#define _Static_assert static_assert
extern "C" {
#include <ompi/datatype/ompi_datatype.h>
#include <ompi/mca/bml/base/base.h>
#include <ompi/proc/proc.h>
#include <opal/runtime/opal_progress.h>
}
#undef _Static_assert
#undef _Alignof

namespace {

constexpr mca_btl_base_tag_t tag = MCA_BTL_TAG_USR;
constexpr mca_btl_base_tag_t late_tag = MCA_BTL_TAG_USR + 1;  // who takes it comes later
int taken = 0;
int told = 0;
int errors = 0;

// Whatever this Open MPI passes to it.
template <typename... Arguments>
void take(Arguments...) {
  ++taken;
}

void tell(mca_btl_base_module_t*, mca_btl_base_endpoint_t*, mca_btl_base_descriptor_t*,
          int status) {
  CHECK(status == OPAL_SUCCESS, "a fragment ends with %d", status);
  ++told;
}

void progress_until_taken(int count) {
  while (taken < count) opal_progress();
}

// Instead of ob1's, which ends the job.
void hear(mca_btl_base_module_t*, std::int32_t, opal_proc_t*, char*) { ++errors; }

// There are two processes.
ompi_proc_t* other_one() {
  std::size_t count = 0;
  ompi_proc_t** const all = ompi_proc_world(&count);
  ompi_proc_t* const other = all[0] == ompi_proc_local() ? all[1] : all[0];
  std::free(all);
  return other;
}

mca_bml_base_btl_t& to_other_one() {
  mca_bml_base_btl_t* const found =
      mca_bml_base_btl_array_get_index(&mca_bml_base_get_endpoint(other_one())->btl_eager, 0);
  CHECK(found != nullptr, "there is no BTL to the peer");
  return *found;
}

// Bytes as ob1 hands them over.
class Bytes {
 public:
  explicit Bytes(std::size_t count) : bytes_(count) {
    OBJ_CONSTRUCT(&convertor_, opal_convertor_t);
    opal_convertor_copy_and_prepare_for_send(ompi_mpi_local_convertor, &opal_datatype_uint1, count,
                                             bytes_.data(), 0, &convertor_);
  }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  ~Bytes() { OBJ_DESTRUCT(&convertor_); }
  opal_convertor_t* convertor() { return &convertor_; }

 private:
  std::vector<char> bytes_;
  opal_convertor_t convertor_;
};

// A fragment of at most this size; nullptr if there is no memory for it now.
mca_btl_base_descriptor_t* fragment(mca_bml_base_btl_t& to, Bytes& bytes, std::size_t& size) {
  return to.btl->btl_prepare_src(
      to.btl, to.btl_endpoint, bytes.convertor(), MCA_BTL_NO_ORDER, 0, &size,
      MCA_BTL_DES_FLAGS_BTL_OWNERSHIP | MCA_BTL_DES_SEND_ALWAYS_CALLBACK);
}

void give_back_unsent(mca_bml_base_btl_t& to) {
  for (int i = 0; i < 10000; ++i) {
    mca_btl_base_descriptor_t* const descriptor =
        to.btl->btl_alloc(to.btl, to.btl_endpoint, MCA_BTL_NO_ORDER, 1000, 0);
    CHECK(descriptor != nullptr, "there is no memory for descriptor %d", i);
    to.btl->btl_free(to.btl, descriptor);
  }
}

// Returns how many fragments were sent.
int send_until_refused(mca_bml_base_btl_t& to, std::size_t send_memory_bytes, int most) {
  std::size_t sent_bytes = 0;
  int sent = 0;
  for (; sent < most; ++sent) {
    std::size_t size = to.btl->btl_max_send_size;
    Bytes bytes(size);
    mca_btl_base_descriptor_t* const descriptor = fragment(to, bytes, size);
    if (descriptor == nullptr) break;
    descriptor->des_cbfunc = tell;
    const int rc = to.btl->btl_send(to.btl, to.btl_endpoint, descriptor, tag);
    CHECK(rc >= 0, "fragment %d is refused with %d", sent, rc);
    sent_bytes += size;
  }
  CHECK(sent > 0 && sent_bytes <= send_memory_bytes,
        "%d fragments of %zu bytes in all were taken, and %zu bytes are allowed", sent, sent_bytes,
        send_memory_bytes);
  while (told < sent) opal_progress();
  std::size_t size = 1;
  Bytes one(size);
  mca_btl_base_descriptor_t* const again = fragment(to, one, size);
  CHECK(again != nullptr, "no fragment is taken after all are delivered");
  to.btl->btl_free(to.btl, again);
  return sent;
}

// Messages with gaps, until one is turned back: nothing of it may have been packed. Returns how
// many were sent.
int send_gaps_until_turned_back(mca_bml_base_btl_t& to, int most) {
  constexpr int blocks = 300;
  MPI_Datatype gaps;
  MPI_Type_vector(blocks, 1, 2, MPI_DOUBLE, &gaps);
  MPI_Type_commit(&gaps);
  std::vector<double> data(2 * blocks);
  constexpr std::size_t bytes = blocks * sizeof(double);
  char header[32] = {};
  opal_convertor_t convertor;
  OBJ_CONSTRUCT(&convertor, opal_convertor_t);
  int sent = 0;
  int rc = OPAL_SUCCESS;
  std::size_t begin = 0;
  for (; sent < most; ++sent) {
    opal_convertor_copy_and_prepare_for_send(ompi_mpi_local_convertor, &gaps->super, 1, data.data(),
                                             0, &convertor);
    begin = convertor.bConverted;
    rc = to.btl->btl_sendi(to.btl, to.btl_endpoint, &convertor, header, sizeof header, bytes,
                           MCA_BTL_NO_ORDER, 0, tag, nullptr);
    if (rc != OPAL_SUCCESS) break;
    OBJ_DESTRUCT(&convertor);
    OBJ_CONSTRUCT(&convertor, opal_convertor_t);
  }
  CHECK(rc == OPAL_ERR_RESOURCE_BUSY, "after %d messages sendi returns %d", sent, rc);
  CHECK(convertor.bConverted == begin, "of a message that was turned back %zu bytes are packed",
        convertor.bConverted - begin);
  OBJ_DESTRUCT(&convertor);
  MPI_Type_free(&gaps);
  return sent;
}

// Bytes of a GPU are packed by who sends, outside of the component's locks. Only the mark is one's.
void send_from_a_gpu(mca_bml_base_btl_t& to) {
  MPI_Datatype gaps;
  MPI_Type_vector(2, 1, 2, MPI_DOUBLE, &gaps);
  MPI_Type_commit(&gaps);
  std::vector<double> data(4);
  char header[32] = {};
  opal_convertor_t convertor;
  OBJ_CONSTRUCT(&convertor, opal_convertor_t);
  opal_convertor_copy_and_prepare_for_send(ompi_mpi_local_convertor, &gaps->super, 1, data.data(),
                                           0, &convertor);
#if OPAL_MAJOR_VERSION >= 5
  convertor.flags |= CONVERTOR_ACCELERATOR;
#else
  convertor.flags |= CONVERTOR_CUDA;
#endif
  mca_btl_base_descriptor_t* instead = nullptr;
  const int rc = to.btl->btl_sendi(to.btl, to.btl_endpoint, &convertor, header, sizeof header,
                                   2 * sizeof(double), MCA_BTL_NO_ORDER, 0, tag, &instead);
  CHECK(rc != OPAL_SUCCESS && convertor.bConverted == 0, "sendi packs bytes of a GPU: %d", rc);
  CHECK(instead != nullptr, "there is no descriptor to pack them into");
  to.btl->btl_free(to.btl, instead);
  OBJ_DESTRUCT(&convertor);
  MPI_Type_free(&gaps);
}

void send_small(mca_bml_base_btl_t& to, mca_btl_base_tag_t tag, int count) {
  for (int i = 0; i < count; ++i) {
    mca_btl_base_descriptor_t* const descriptor = to.btl->btl_alloc(
        to.btl, to.btl_endpoint, MCA_BTL_NO_ORDER, 100, MCA_BTL_DES_FLAGS_BTL_OWNERSHIP);
    CHECK(descriptor != nullptr, "there is no memory for message %d", i);
    const int rc = to.btl->btl_send(to.btl, to.btl_endpoint, descriptor, tag);
    CHECK(rc >= 0, "message %d is refused with %d", i, rc);
  }
}

void add_again(mca_bml_base_btl_t& to) {
  ompi_proc_t* const procs[] = {ompi_proc_local(), other_one()};
  for (ompi_proc_t* const proc : procs) {
    mca_btl_base_endpoint_t* endpoint = nullptr;
    opal_proc_t* added = &proc->super;
    const int rc = to.btl->btl_add_procs(to.btl, 1, &added, &endpoint, nullptr);
    CHECK(rc == OPAL_SUCCESS && endpoint != nullptr, "a process that is added alone: %d", rc);
    CHECK(proc == procs[0] || endpoint == to.btl_endpoint, "a peer has two endpoints");
  }
}

// Memory of rank 1 as rank 0 hears of it.
struct Offered {
  std::uint64_t address;
  std::uint64_t other_address;  // of memory that is not the handle's
  unsigned char handle[256];    // as much of it as the component says
};

mca_btl_base_registration_handle_t* handle_of(Offered& offered) {
  return reinterpret_cast<mca_btl_base_registration_handle_t*>(offered.handle);
}

constexpr std::uint64_t other_word = 7;
constexpr std::size_t page = 64 << 10;  // or several of them
int ended_with = 0;
int ended = 0;

void end(mca_btl_base_module_t*, mca_btl_base_endpoint_t*, void*,
         mca_btl_base_registration_handle_t*, void*, void*, int status) {
  ended_with = status;
  ++ended;
}

// Many times one is added to the word at the beginning, and nobody asks what it was.
void add_ones(mca_bml_base_btl_t& to, Offered offered, int ones) {
  mca_btl_base_module_t* const btl = to.btl;
  for (int i = 0; i < ones; ++i) {
    const int rc =
        btl->btl_atomic_op(btl, to.btl_endpoint, offered.address, handle_of(offered),
                           MCA_BTL_ATOMIC_ADD, 1, 0, MCA_BTL_NO_ORDER, end, nullptr, nullptr);
    CHECK(rc == OPAL_SUCCESS, "a sum is refused with %d", rc);
    while (ended <= i) opal_progress();
    CHECK(ended_with == OPAL_SUCCESS, "a sum ends with %d", ended_with);
  }
  ended = 0;
}

// Of these osc/rdma does without, if it is told so.
void ask_for_other_atomics(mca_bml_base_btl_t& to, Offered offered) {
  mca_btl_base_module_t* const btl = to.btl;
  const auto start = [&](mca_btl_base_atomic_op_t operation, int flags, std::uint64_t from = 0) {
    return btl->btl_atomic_op(btl, to.btl_endpoint, offered.address + from, handle_of(offered),
                              operation, 1, flags, MCA_BTL_NO_ORDER, end, nullptr, nullptr);
  };
  CHECK(start(MCA_BTL_ATOMIC_ADD, MCA_BTL_ATOMIC_FLAG_32BIT) == OPAL_ERR_NOT_SUPPORTED,
        "a sum of 32 bits is not refused");
  CHECK(start(MCA_BTL_ATOMIC_MAX, 0) == OPAL_ERR_NOT_SUPPORTED, "a maximum is not refused");
  CHECK(start(MCA_BTL_ATOMIC_ADD, 0, 4) == OPAL_ERR_NOT_SUPPORTED,
        "a sum at an address that is not aligned is not refused");
  alignas(std::uint64_t) char result[16];
  for (const std::uint64_t from : {0, 4}) {
    CHECK(btl->btl_atomic_cswap(btl, to.btl_endpoint, result + 4 - from, offered.address + from,
                                nullptr, handle_of(offered), 0, 1, 0, MCA_BTL_NO_ORDER, end,
                                nullptr, nullptr) == OPAL_ERR_NOT_SUPPORTED,
          "a swap is not refused, %s is not aligned", from == 0 ? "whose result" : "whose word");
  }
}

// Of memory that a window of no bytes has not registered, nothing may be put and read.
void move_nothing(mca_bml_base_btl_t& to, Offered offered) {
  mca_btl_base_module_t* const btl = to.btl;
  std::memset(offered.handle, 0, sizeof offered.handle);
  char nothing;
  for (const auto start : {btl->btl_get, btl->btl_put}) {
    CHECK(start(btl, to.btl_endpoint, &nothing, 0, nullptr, handle_of(offered), 0, 0,
                MCA_BTL_NO_ORDER, end, nullptr, nullptr) == OPAL_SUCCESS,
          "a transfer of no bytes is refused");
    while (ended == 0) opal_progress();
    ended = 0;
    CHECK(ended_with == OPAL_SUCCESS, "a transfer of no bytes ends with %d", ended_with);
  }
}

// Reads the words from there, or writes them to there, and returns how that ended.
enum class Way { get, put };
int move(Way way, mca_bml_base_btl_t& to, Offered& offered, std::uint64_t address,
         std::vector<std::uint64_t>& words) {
  mca_btl_base_module_t* const btl = to.btl;
  const std::size_t bytes = words.size() * sizeof words[0];
  mca_btl_base_registration_handle_t* const local = btl->btl_register_mem(
      btl, to.btl_endpoint, words.data(), bytes, MCA_BTL_REG_FLAG_LOCAL_WRITE);
  CHECK(local != nullptr, "memory cannot be registered");
  const auto start = way == Way::get ? btl->btl_get : btl->btl_put;
  const int rc = start(btl, to.btl_endpoint, words.data(), address, local, handle_of(offered),
                       bytes, 0, MCA_BTL_NO_ORDER, end, nullptr, nullptr);
  CHECK(rc == OPAL_SUCCESS, "a transfer is refused with %d", rc);
  while (ended == 0) opal_progress();
  ended = 0;
  btl->btl_deregister_mem(btl, local);
  return ended_with;
}

// Rank 1 makes no call until rank 0 has written to this word of its memory.
constexpr std::size_t word_to_go_on = 1;
void stay_away(const std::vector<std::uint64_t>& memory) {
  const volatile std::uint64_t& word = memory[word_to_go_on];
  while (word == 0) usleep(1000);
}

void let_go_on(mca_bml_base_btl_t& to, Offered offered) {
  std::vector<std::uint64_t> one{1};
  CHECK(move(Way::put, to, offered, offered.address + word_to_go_on * sizeof one[0], one) ==
            OPAL_SUCCESS,
        "a put ends with %d", ended_with);
}

// osc/rdma hands out handles of memory that was detached, and another's is there by then.
void get_by_the_handle_of_other_memory(mca_bml_base_btl_t& to, Offered offered) {
  std::vector<std::uint64_t> words(100);
  CHECK(move(Way::get, to, offered, offered.other_address, words) == OPAL_SUCCESS,
        "a get with the handle of other memory ends with %d", ended_with);
  CHECK(std::count(words.begin(), words.end(), other_word) == std::ssize(words),
        "a get with the handle of other memory brings the wrong words");
}

// Memory that its owner may only read is read, and not written: the caller hears of it, and the
// connection stays. osc/rdma of 4.1 and 5.0 repeats some refused puts for ever: that ends the job.
void write_to_read_only_memory(mca_bml_base_btl_t& to, Offered offered) {
  to.btl->btl_register_error(to.btl, hear);
  std::vector<std::uint64_t> words(100);
  CHECK(move(Way::get, to, offered, offered.address, words) == OPAL_SUCCESS &&
            words[99] == other_word,
        "read-only memory is not read: %d", ended_with);
  mca_btl_base_module_t* const btl = to.btl;
  const auto put = [&] {
    return btl->btl_put(btl, to.btl_endpoint, words.data(), offered.address, nullptr,
                        handle_of(offered), 8, 0, MCA_BTL_NO_ORDER, end, nullptr, nullptr);
  };
  CHECK(btl->btl_atomic_op(btl, to.btl_endpoint, offered.address, handle_of(offered),
                           MCA_BTL_ATOMIC_ADD, 1, 0, MCA_BTL_NO_ORDER, end, nullptr,
                           nullptr) == OPAL_ERR_NOT_SUPPORTED,
        "a sum in read-only memory is not refused");
  for (int i = 0; i < 100; ++i) {
    CHECK(put() == OPAL_ERR_BAD_PARAM, "a put to read-only memory is not refused");
    if (i % 10 == 0) move(Way::get, to, offered, offered.address, words);
  }
  CHECK(errors == 0 && ended == 0, "%d errors were reported, %d puts have ended", errors, ended);
  while (errors == 0) put();
  btl->btl_atomic_cswap(btl, to.btl_endpoint, nullptr, offered.address, nullptr, handle_of(offered),
                        other_word, 1, 0, MCA_BTL_NO_ORDER, end, nullptr, nullptr);
  put();
  CHECK(errors == 2, "what follows a swap in read-only memory is no error");
  errors = 0;
}

void get_what_is_not_there(mca_bml_base_btl_t& to, Offered offered) {
  to.btl->btl_register_error(to.btl, hear);
  std::vector<std::uint64_t> words(100);
  CHECK(move(Way::get, to, offered, offered.address + (std::uint64_t{1} << 40), words) !=
            OPAL_SUCCESS,
        "memory that is not there was read");
  CHECK(errors == 1, "%d errors were reported, not one", errors);
}

// While a peer has many messages to read that could have been trains, neither side begins trains.
void stream(mca_bml_base_btl_t& to, bool announces) {
  constexpr std::size_t bytes = 16 << 10, least = 2, most = 8;
  mca_btl_base_module_t& btl = *to.btl;
  while (btl.btl_eager_limit < bytes) opal_progress();
  const std::size_t usual = btl.btl_eager_limit;
  const auto await = [&](bool trains) {
    while ((btl.btl_eager_limit == usual) != trains) opal_progress();
    CHECK(trains || btl.btl_eager_limit < bytes, "the eager limit is %zu", btl.btl_eager_limit);
    MPI_Barrier(check::world);
  };
  std::vector<std::byte> memory(bytes);
  std::vector<mca_btl_base_registration_handle_t*> announced;
  const auto announce_until = [&](std::size_t count) {
    while (announces && announced.size() < count)
      announced.push_back(btl.btl_register_mem(&btl, to.btl_endpoint, memory.data(), bytes,
                                               MCA_BTL_REG_FLAG_REMOTE_READ));
  };
  const auto read_until = [&](std::size_t count) {
    for (; announced.size() > count; announced.pop_back())
      btl.btl_deregister_mem(&btl, announced.back());
  };
  announce_until(most - 1);
  await(true);
  announce_until(most);
  await(false);
  read_until(least + 1);
  await(false);
  read_until(least);
  await(true);
  read_until(0);
}

// A peer that is gone when it is left is no error: it may have been quicker.
void leave_when_dead(pid_t peer) {
  mca_bml_base_btl_t& to = to_other_one();
  to.btl->btl_register_error(to.btl, hear);
  kill(peer, SIGKILL);
  usleep(500'000);  // until the event thread knows
  opal_proc_t* left = &other_one()->super;
  to.btl->btl_del_procs(to.btl, 1, &left, &to.btl_endpoint);
  for (int i = 0; i < 1000; ++i) opal_progress();
  CHECK(errors == 0, "%d errors are reported of a peer that was left", errors);
}

}  // namespace

MPI_TEST(btl_calls) {
  check::Session session(argc, argv, "btl_calls");
  const long send_memory_bytes = session.options.number("send-memory", 16 << 20);
  const int most = static_cast<int>(session.options.number("fragments", 5000));
  const bool leave = session.options.flag("leave");
  session.options.done();
  CHECK(session.size == 2, "btl_calls needs two ranks");
  mca_btl_base_active_message_trigger[tag].cbfunc = take;

  check::phase("connecting");
  MPI_Barrier(check::world);

  if (leave) {
    check::phase("leaving a dead peer");
    pid_t peer = getpid();
    MPI_Bcast(&peer, 1, MPI_INT, 1, check::world);
    if (session.rank == 1) pause();
    leave_when_dead(peer);
    std::printf("btl_calls: ok, the dead peer is left\n");
    std::fflush(stdout);
    _exit(0);  // MPI_Finalize would wait for it
  }

  int sent = 0;
  if (session.rank == 0) {
    check::phase("descriptors that are given back unsent");
    give_back_unsent(to_other_one());
    send_from_a_gpu(to_other_one());
    check::phase("fragments until one is refused");
    sent = send_until_refused(to_other_one(), static_cast<std::size_t>(send_memory_bytes), most);
    check::phase("processes that are added alone");
    add_again(to_other_one());
  }
  check::phase("fragments to come");
  MPI_Bcast(&sent, 1, MPI_INT, 0, check::world);
  if (session.rank == 1) progress_until_taken(sent);

  check::phase("messages before there is a receiver");
  constexpr int early = 3;
  taken = 0;
  if (session.rank == 0) send_small(to_other_one(), late_tag, early);
  MPI_Barrier(check::world);
  for (int i = 0; i < 100; ++i) opal_progress();  // they are looked at more than once
  mca_btl_base_active_message_trigger[late_tag].cbfunc = take;
  if (session.rank == 1) progress_until_taken(early);

  check::phase("a stream");
  stream(to_other_one(), session.rank == 0);

  check::phase("one-sided operations");
  mca_bml_base_btl_t& to = to_other_one();
  // So large that no page of one is the other's.
  std::vector<std::uint64_t> memory(1 << 17);
  std::vector<std::uint64_t> other(1 << 17, other_word);
  const auto offer = [&](std::vector<std::uint64_t>& words) {
    mca_btl_base_registration_handle_t* const handle = to.btl->btl_register_mem(
        to.btl, MCA_BTL_ENDPOINT_ANY, words.data(), words.size() * sizeof words[0],
        MCA_BTL_REG_FLAG_REMOTE_READ | MCA_BTL_REG_FLAG_REMOTE_WRITE |
            MCA_BTL_REG_FLAG_REMOTE_ATOMIC);
    CHECK(handle != nullptr, "memory cannot be registered");
    return handle;
  };
  mca_btl_base_registration_handle_t* const handle = offer(memory);
  mca_btl_base_registration_handle_t* const handle_of_other = offer(other);
  Offered offered{reinterpret_cast<std::uint64_t>(memory.data()),
                  reinterpret_cast<std::uint64_t>(other.data()),
                  {}};
  const std::size_t handle_bytes = to.btl->btl_registration_handle_size;
  CHECK(handle_bytes <= sizeof offered.handle, "a handle has %zu bytes", handle_bytes);
  std::memcpy(offered.handle, handle, handle_bytes);
  std::vector<std::uint64_t> read_only(1 << 17, other_word);
  Offered to_be_read{reinterpret_cast<std::uint64_t>(read_only.data()) + page, 0, {}};
  to_be_read.address -= to_be_read.address % page;
  auto* const pages = reinterpret_cast<void*>(to_be_read.address);
  const std::size_t read_only_bytes = read_only.size() * sizeof read_only[0] - 2 * page;
  mprotect(pages, read_only_bytes, PROT_READ);
  mca_btl_base_registration_handle_t* const handle_to_read = to.btl->btl_register_mem(
      to.btl, MCA_BTL_ENDPOINT_ANY, pages, read_only_bytes, MCA_BTL_REG_FLAG_ACCESS_ANY);
  CHECK(handle_to_read != nullptr, "read-only memory cannot be registered");
  std::memcpy(to_be_read.handle, handle_to_read, handle_bytes);
  taken = 0;
  MPI_Bcast(&offered, sizeof offered, MPI_BYTE, 1, check::world);
  MPI_Bcast(&to_be_read, sizeof to_be_read, MPI_BYTE, 1, check::world);
  constexpr int ones = 100;
  if (session.rank == 0) {
    check::phase("sums whose result nobody wants");
    add_ones(to, offered, ones);
    check::phase("atomics that adapters cannot do");
    ask_for_other_atomics(to, offered);
    check::phase("read-only memory");
    write_to_read_only_memory(to, to_be_read);
    check::phase("transfers of nothing");
    move_nothing(to, offered);
    check::phase("messages until one is turned back");
    sent = send_gaps_until_turned_back(to, most);
    let_go_on(to, offered);
    check::phase("the handle of other memory");
    get_by_the_handle_of_other_memory(to, offered);
    check::phase("memory that is not there");
    get_what_is_not_there(to, offered);
  }
  if (session.rank == 1) stay_away(memory);
  MPI_Bcast(&sent, 1, MPI_INT, 0, check::world);
  if (session.rank == 1) progress_until_taken(sent);
  if (session.rank == 1) {
    const auto sum = static_cast<unsigned long>(memory[0]);
    CHECK(sum == ones, "the sum of %d ones is %lu", ones, sum);
  }
  to.btl->btl_deregister_mem(to.btl, handle);
  to.btl->btl_deregister_mem(to.btl, handle_of_other);
  to.btl->btl_deregister_mem(to.btl, handle_to_read);
  mprotect(pages, read_only_bytes, PROT_READ | PROT_WRITE);
  return session.finish();
}
