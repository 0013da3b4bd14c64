// bare_flows: what `flows` could reach if nothing stood above verbs. Streams of large messages
// between two threads with a core each, one RC connection, three ways in turn:
//
//   reads       chunk after chunk into one buffer, from one: what ib_read_bw measures
//   buffers     the same, through 16 messages' buffers
//   rendezvous  a message is announced by a SEND (RTS), read, and its end told by another (FIN);
//               then its buffer is announced again. 16 messages are under way.
//
// Chunks are of 128 KiB at most, 16 reads are under way. Nothing is matched, scheduled or counted.
// For each size and way it prints the median of the rounds in MB/s, and of their ratios to `reads`.
// Both ways: the sum. For RoCE.
//
//   tools/lab/lab -- build/bin/bare_flows
#include <fmt/core.h>
#include <sched.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "transport/verbs/choose_ports.h"
#include "transport/verbs/device.h"
#include "transport/verbs/memory.h"

namespace weir {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t messages = 16;  // under way
constexpr std::uint32_t reads = 16;
constexpr std::uint32_t most_chunk_bytes = 128 << 10;
constexpr std::uint32_t announcement_bytes = 90;  // as ob1's RTS in a frame of weir's
constexpr std::uint32_t queue_depth = 4 * messages;
constexpr std::array<std::uint32_t, 3> sizes = {64 << 10, 256 << 10, 1 << 20};

enum class Way { reads, buffers, rendezvous };
constexpr std::array<Way, 3> ways = {Way::reads, Way::buffers, Way::rendezvous};
constexpr std::array<const char*, 3> titles = {"reads", "buffers", "rendezvous"};

[[noreturn]] void give_up(const std::string& what) {
  fmt::print(stderr, "bare_flows: {}\n", what);
  std::exit(1);
}

template <typename T>
T* need(T* made, const char* what) {
  if (made == nullptr) give_up(fmt::format("cannot make {}: {}", what, std::strerror(errno)));
  return made;
}

void need(int error, const char* what) {
  if (error != 0) give_up(fmt::format("{}: {}", what, std::strerror(error)));
}

// What one end of a connection does in a run.
struct Job {
  Way way;
  std::uint32_t bytes;  // of a message
  bool receives;
  bool sends;
};

// One end: its queue pair, its memory, and what its thread does. Only `received` is for others.
class End {
 public:
  explicit End(const verbs::Device& device) : device_(device) {
    const std::size_t bytes = std::size_t{messages} * sizes.back();
    from_ = verbs::RegisteredMemory::to_be_read(device, bytes);
    to_ = verbs::RegisteredMemory::allocate(device, bytes);
    words_ = verbs::RegisteredMemory::allocate(device, 2 * announcement_bytes);
    if (!from_ || !to_ || !words_) give_up("cannot register the buffers");
    std::fill_n(from_.data(), bytes, std::byte{1});
    std::fill_n(to_.data(), bytes, std::byte{2});
    cq_.reset(need(ibv_create_cq(device.context(), 4 * queue_depth, nullptr, nullptr, 0),
                   "a completion queue"));
    ibv_qp_init_attr attr{};
    attr.send_cq = attr.recv_cq = cq_.get();
    attr.qp_type = IBV_QPT_RC;
    attr.cap = {queue_depth, queue_depth, 1, 1, 0};
    pair_.reset(need(ibv_create_qp(device.pd(), &attr), "a queue pair"));
  }

  void connect(const End& other) {
    const verbs::PortChoice& port = device_.port();
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_INIT;
    to.port_num = port.port;
    to.qp_access_flags = IBV_ACCESS_REMOTE_READ;
    need(ibv_modify_qp(pair_.get(), &to,
                       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
         "INIT");
    to.qp_state = IBV_QPS_RTR;
    to.path_mtu = static_cast<ibv_mtu>(std::bit_width(port.mtu_bytes) - 8);  // 256 bytes are 1
    to.dest_qp_num = other.pair_->qp_num;
    to.max_dest_rd_atomic = device_.most_fetches_answered();
    to.min_rnr_timer = 12;
    to.ah_attr.port_num = port.port;
    to.ah_attr.is_global = 1;
    to.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(port.gid.index);
    to.ah_attr.grh.hop_limit = 1;
    std::copy(port.gid.raw.begin(), port.gid.raw.end(), to.ah_attr.grh.dgid.raw);
    need(ibv_modify_qp(pair_.get(), &to,
                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                           IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
         "RTR");
    to.qp_state = IBV_QPS_RTS;
    to.timeout = 14;
    to.retry_cnt = to.rnr_retry = 7;
    to.max_rd_atomic = device_.most_fetches_started();
    need(ibv_modify_qp(pair_.get(), &to,
                       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                           IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
         "RTS");
    for (std::uint32_t i = 0; i < queue_depth; ++i) expect_word();
    source_ = {reinterpret_cast<std::uint64_t>(other.from_.data()), other.from_.rkey()};
  }

  // Works on core `cpu` until `stop`.
  void run(const Job& job, int cpu, const std::atomic<bool>& stop) {
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(static_cast<unsigned>(cpu), &cpus);
    need(sched_setaffinity(0, sizeof cpus, &cpus) == 0 ? 0 : errno, "a core for each thread");
    job_ = job;
    chunk_ = std::min(job.bytes, most_chunk_bytes);
    chunks_ = job.bytes / chunk_;
    if (job.way == Way::rendezvous) {
      for (std::uint32_t i = 0; job.sends && i < messages; ++i) say(i);
    } else {
      for (std::uint32_t i = 0; job.receives && i < reads; ++i) read_next();
    }
    while (!stop.load(std::memory_order_relaxed)) {
      ibv_wc done;
      if (ibv_poll_cq(cq_.get(), 1, &done) > 0) on_completion(done);
    }
  }

  std::atomic<std::uint64_t> received{0};  // bytes

 private:
  template <auto Destroy>
  using With = verbs::Destroyer<Destroy>;

  struct Source {
    std::uint64_t address;
    std::uint32_t rkey;
  };
  struct Read {
    std::uint32_t message, chunk;
  };

  void on_completion(const ibv_wc& done) {
    if (done.status != IBV_WC_SUCCESS) give_up(ibv_wc_status_str(done.status));
    if (done.opcode == IBV_WC_RECV) return on_word(done.imm_data);
    if (done.opcode != IBV_WC_RDMA_READ) return;
    received.store(received.load(std::memory_order_relaxed) + chunk_, std::memory_order_relaxed);
    if (job_.way != Way::rendezvous) return read_next();
    --under_way_;
    if (--left_[done.wr_id] == 0) say(messages + static_cast<std::uint32_t>(done.wr_id));
    read_announced();
  }

  // Announcements are the number of the message, ends are `messages` more.
  void on_word(std::uint32_t word) {
    expect_word();
    if (word >= messages) return say(word - messages);
    left_[word] = chunks_;
    for (std::uint32_t chunk = 0; chunk < chunks_; ++chunk) announced_.push_back({word, chunk});
    read_announced();
  }

  void read_announced() {
    for (; under_way_ < reads && !announced_.empty(); ++under_way_) {
      read(announced_.front());
      announced_.pop_front();
    }
  }

  void read_next() {
    if (job_.way == Way::reads) return read({0, 0});
    read({next_ / chunks_ % messages, next_ % chunks_});
    ++next_;
  }

  void read(const Read& what) {
    const std::uint64_t at = std::uint64_t{what.message} * job_.bytes + what.chunk * chunk_;
    ibv_sge piece{reinterpret_cast<std::uint64_t>(to_.data()) + at, chunk_, to_.lkey()};
    ibv_send_wr work{};
    work.wr_id = what.message;
    work.opcode = IBV_WR_RDMA_READ;
    work.wr.rdma = {source_.address + at, source_.rkey};
    post(work, piece);
  }

  void say(std::uint32_t word) {
    ibv_sge piece{reinterpret_cast<std::uint64_t>(words_.data()), announcement_bytes,
                  words_.lkey()};
    ibv_send_wr work{};
    work.opcode = IBV_WR_SEND_WITH_IMM;
    work.imm_data = word;
    post(work, piece);
  }

  void post(ibv_send_wr& work, ibv_sge& piece) {
    work.sg_list = &piece;
    work.num_sge = 1;
    work.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* refused = nullptr;
    need(ibv_post_send(pair_.get(), &work, &refused), "ibv_post_send");
  }

  void expect_word() {
    ibv_sge piece{reinterpret_cast<std::uint64_t>(words_.data()) + announcement_bytes,
                  announcement_bytes, words_.lkey()};
    ibv_recv_wr work{};
    work.sg_list = &piece;
    work.num_sge = 1;
    ibv_recv_wr* refused = nullptr;
    need(ibv_post_recv(pair_.get(), &work, &refused), "ibv_post_recv");
  }

  const verbs::Device& device_;
  verbs::RegisteredMemory from_, to_, words_;
  std::unique_ptr<ibv_cq, With<ibv_destroy_cq>> cq_;
  std::unique_ptr<ibv_qp, With<ibv_destroy_qp>> pair_;
  Source source_{};

  Job job_{};
  std::uint32_t chunk_ = 0, chunks_ = 0;
  std::uint32_t next_ = 0;
  std::uint32_t under_way_ = 0;
  std::array<std::uint32_t, messages> left_{};  // chunks of each message
  std::deque<Read> announced_;
};

struct Options {
  int rounds = 7;
  int settle_ms = 400;
  int measure_ms = 600;
  std::string device = "auto";
};

// MB/s of both directions together.
double measure(const verbs::Device& device, const Options& options, Way way, std::uint32_t bytes,
               bool both) {
  End ends[] = {End(device), End(device)};
  ends[0].connect(ends[1]);
  ends[1].connect(ends[0]);
  std::atomic<bool> stop{false};
  std::thread left([&] { ends[0].run({way, bytes, true, both}, 0, stop); });
  std::thread right([&] { ends[1].run({way, bytes, both, true}, 1, stop); });
  const auto received = [&] { return ends[0].received.load() + ends[1].received.load(); };
  std::this_thread::sleep_for(std::chrono::milliseconds(options.settle_ms));
  const std::uint64_t before = received();
  const Clock::time_point begin = Clock::now();
  std::this_thread::sleep_for(std::chrono::milliseconds(options.measure_ms));
  const std::uint64_t after = received();
  const std::chrono::duration<double, std::micro> took = Clock::now() - begin;
  stop = true;
  left.join();
  right.join();
  return static_cast<double>(after - before) / took.count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void compare(const verbs::Device& device, const Options& options, std::uint32_t bytes, bool both) {
  std::array<std::vector<double>, ways.size()> rates, ratios;
  for (int round = 0; round < options.rounds; ++round) {
    for (std::size_t i = 0; i < ways.size(); ++i) {
      rates[i].push_back(measure(device, options, ways[i], bytes, both));
      ratios[i].push_back(rates[i].back() / rates[0].back());
    }
  }
  fmt::print("{:8}  {:>4} KiB", both ? "both" : "one way", bytes >> 10);
  for (std::size_t i = 0; i < ways.size(); ++i)
    fmt::print("  {:10} {:3.0f} {:.3f}", titles[i], median(rates[i]), median(ratios[i]));
  fmt::print("\n");
  std::fflush(stdout);
}

}  // namespace
}  // namespace weir

int main(int argc, char** argv) {
  using namespace weir;
  Options options;
  CLI::App app("Streams of large messages by verbs alone: MB/s, and the part of plain reads.");
  app.add_option("--rounds", options.rounds, "runs of each way; the median counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--ms", options.measure_ms, "of a run")->check(CLI::Range(50, 60000));
  app.add_option("--device", options.device, "the RDMA port, as in btl_weir_device");
  CLI11_PARSE(app, argc, argv);

  std::string why;
  const auto port = verbs::choose_port({.name = options.device}, why);
  if (!port) give_up(why);
  const auto device = verbs::Device::open(*port, why);
  if (!device) give_up(why);
  for (const bool both : {false, true}) {
    for (const std::uint32_t bytes : sizes) compare(*device, options, bytes, both);
  }
}
