#include "transport/config/schema.h"

#include <algorithm>
#include <array>

#include "transport/config/table.h"
#include "transport/config/units.h"

namespace weir::config {
namespace {

constexpr std::int64_t KiB = 1024;
constexpr std::int64_t MiB = 1024 * KiB;
constexpr std::int64_t GiB = 1024 * MiB;
constexpr std::int64_t us = 1000;
constexpr std::int64_t ms = 1000 * us;
constexpr std::int64_t s = 1000 * ms;
constexpr std::int64_t h = 3600 * s;

struct Words {
  const char* help;
  const char* reason;
};

constexpr Key text(const char* name, const char* fallback, int level, Words words,
                   std::string Settings::*field) {
  return {{name, Kind::text, fallback, 0, 0, nullptr, nullptr},
          level,
          words.help,
          words.reason,
          nullptr,
          field};
}
constexpr Key choice(const char* name, const char* choices, const char* fallback, int level,
                     Words words, std::string Settings::*field) {
  return {{name, Kind::choice, fallback, 0, 0, nullptr, choices},
          level,
          words.help,
          words.reason,
          nullptr,
          field};
}
constexpr Key number(const char* name, Kind kind, const char* fallback, std::int64_t min,
                     std::int64_t max, int level, Words words, std::int64_t Settings::*field) {
  return {{name, kind, fallback, min, max, nullptr, nullptr},
          level,
          words.help,
          words.reason,
          field,
          nullptr};
}
constexpr Key number_or_auto(const char* name, Kind kind, const char* fallback, std::int64_t min,
                             std::int64_t max, int level, Words words,
                             std::int64_t Settings::*field) {
  Key key = number(name, kind, fallback, min, max, level, words, field);
  key.word = "auto";
  return key;
}

constexpr Key alike(Key key) {
  key.alike = true;
  return key;
}

// The fallbacks are the values with which the protocol was measured on Soft-RoCE. Level 1 has the
// few keys that matter most.
constexpr std::array keys{
    // Which port.
    choice("profile", "auto, rxe, roce, infiniband", "auto", 1,
           {"Defaults for one kind of fabric. Files, variables and parameters win over them; auto "
            "takes the profile of the port in use",
            "The port shows its kind; name a profile only to try another one"},
           &Settings::profile),
    text("device", "auto", 1,
         {"RDMA device, with or without its port: auto, mlx5_0 or rxe0:1. Several with commas are "
          "rails (see there). auto takes the fastest active port that has an address. Of equal "
          "ports in one network it takes one near the process's CPUs, and spreads the processes of "
          "a node over them",
          "On most nodes the fastest port with an address is the right one"},
         &Settings::device),
    number_or_auto(
        "rails", Kind::count, "auto", 1, 4, 2,
        {"Ports that a process uses. The first carries everything; the others carry parts of large "
         "messages, the second to the peer's second and so on. What a broken rail had not "
         "delivered goes over another one. auto takes the ports that device names. If device is "
         "auto, it takes two equal ports where the node has two for each of its processes, else "
         "one. With overlap on or all it then takes one. The rails divide receive_memory_max, "
         "registration_memory_max and the bounds of reads among them",
         "A second port doubles the bandwidth of large messages, but its connections cost memory. "
         "Where processes fill all ports already it adds nothing"},
        &Settings::rails),
    alike(choice("frames", "home, spread", "home", 3,
                 {"Which rails carry small messages: the first (home), or all in turn (spread). "
                  "With spread, MPI makes one-sided operations of messages, because two adapters "
                  "keep no order between them. Open MPI 4.1 cannot do so with MPI_THREAD_MULTIPLE. "
                  "All processes need the same value",
                  "One-sided operations are worth more than further rails for small messages; "
                  "large messages use all rails anyway"},
                 &Settings::frames)),
    number_or_auto("paths", Kind::count, "auto", 1, 8, 3,
                   {"Queue pairs to a peer, on each rail, for the chunks of large gets. The first "
                    "such get makes them. Where the fabric chooses by UDP source port (ECMP), each "
                    "may take a path of its own. weir stops using one that loses packets or is "
                    "dead. auto is 1 until 'weir tune' finds that more pay",
                    "One path is enough where the port is no faster than a link of the fabric. "
                    "Each queue pair costs memory, and room in its adapter's cache"},
                   &Settings::paths),
    text("tuned_for", "any", Key::measured,
         {"The hardware that these values were measured on, as 'weir tune' writes it. On other "
          "hardware weir warns once",
          "Values that nobody measured suit no hardware in particular"},
         &Settings::tuned_for),
    number_or_auto(
        "gid_index", Kind::count, "auto", 0, 255, 2,
        {"Entry of the port's GID table to use; auto prefers RoCEv2 over an IPv4 address",
         "Index 0 is often a link-local address, and indexes move when addresses change"},
        &Settings::gid_index),
    number_or_auto("mtu", Kind::size, "auto", 256, 4 * KiB, 4,
                   {"Largest packet on the wire: 256, 512, 1024, 2048 or 4096; auto takes the "
                    "port's active MTU",
                    "The fabric's administrator has already chosen the port's MTU"},
                   &Settings::mtu_bytes),
    number_or_auto(
        "traffic_class", Kind::count, "auto", 0, 255, 2,
        {"Traffic class of all packets that have a global header. On RoCE it is the TOS byte, 4 "
         "times the DSCP (104 for DSCP 26). auto takes what the connection manager gives",
         "Most lossless RoCE fabrics recognize RDMA by its DSCP, which their administrator has "
         "chosen"},
        &Settings::traffic_class),
    number_or_auto("service_level", Kind::count, "auto", 0, 15, 3,
                   {"Service level of all queue pairs: InfiniBand's, or on RoCE the priority of a "
                    "tagged packet. auto takes the path's",
                    "The subnet manager, or the network interface, gives each path its level"},
                   &Settings::service_level),
    number_or_auto("pkey", Kind::count, "auto", 1, 65535, 3,
                   {"Partition key of all queue pairs, 0x8001 for example. The port's table must "
                    "have it. auto takes the path's",
                    "The address of an InfiniBand port belongs to a partition; RoCE has only one"},
                   &Settings::pkey),

    // Receiving.
    alike(number("buffer_size", Kind::size, "8704B", 1 * KiB, 1 * MiB, 1,
                 {"Size of one receive buffer, and so of the largest frame. All processes need the "
                  "same value",
                  "A message of 8 KiB fits with its headers, and 256 buffers are only 2 MiB"},
                 &Settings::buffer_bytes)),
    number("window_initial", Kind::count, "8", 1, 32768, 3,
           {"Receive window W at the start: receive buffers posted to the shared receive queue",
            "A process that receives little needs little memory, and a window doubles within a few "
            "events"},
           &Settings::window_initial),
    number_or_auto("window_max", Kind::count, "auto", 16, 32768, 1,
                   {"Most receive buffers that the window grows to. auto takes 256, or 512 for "
                    "a burst of many to one, or more if the job's processes need more. "
                    "receive_memory_max bounds the window, too",
                    "Credits make the window cover a round trip, and 256 did so wherever we "
                    "measured. Only a burst of many to one is faster with more"},
                   &Settings::window_max),
    number("window_shrink_after", Kind::duration, "2s", 0, 1 * h, 3,
           {"A receive window of which only a small part was used for this long is halved, and its "
            "memory given back; 0 means never",
            "Most programs pause for less between two phases, so the window does not shrink and "
            "grow with each"},
           &Settings::window_shrink_after_ns),
    number(
        "receive_memory_max", Kind::size, "64MiB", 1 * MiB, 64 * GiB, 1,
        {"Cap on registered receive memory of one process, all of its rails together. Each rail "
         "has its first buffers (window_initial) in any case",
         "64 processes on a node then pin 4 GiB at most; the default window needs 4 MiB at most"},
        &Settings::receive_memory_bytes),

    // Sending.
    number_or_auto(
        "eager_max", Kind::size, "auto", 1 * KiB, 256 * KiB, 3,
        {"Messages up to this size are sent without asking the receiver, in several frames if one "
         "is too small. Longer messages are announced, and the receiver reads them. While the "
         "receiver lacks buffers, messages longer than a frame are announced, too. auto is 64KiB, "
         "48KiB with more processes on the node than processors, or 32KiB with several rails",
         "A larger value pays where programs seldom use a buffer twice: a copy costs less than a "
         "registration"},
        &Settings::eager_max_bytes),
    number_or_auto("inline_limit", Kind::size, "auto", 0, 1 * KiB, 5,
                   {"Frames up to this size are copied into the work request while posting; auto "
                    "takes 256B or what the device can do",
                    "A copy of so few bytes costs less than a second read by the adapter"},
                   &Settings::inline_bytes),
    number("bundle_size", Kind::size, "8KiB", 0, 1 * MiB, 4,
           {"Messages to one peer that have to wait share a frame up to this size. Each may have up "
            "to a third of it. 0 turns sharing off",
            "A receive buffer, with its headers"},
           &Settings::bundle_bytes),
    number("send_memory_max", Kind::size, "64MiB", 1 * MiB, 64 * GiB, 3,
           {"Memory for messages that wait to be sent, over all peers. When it is full, the MPI "
            "layer has to wait; a peer that keeps up is still served",
            "The same bound as for receiving; more does not make a slow receiver faster"},
           &Settings::send_memory_bytes),

    // Large messages and one-sided operations.
    number("chunk_size", Kind::size, "128KiB", 4 * KiB, 8 * MiB, 3,
           {"Gets and puts are cut into RDMA work requests of this size",
            "[RDRP] takes this size, and in our measurements larger chunks gain little. With "
            "reads_max auto, reads are smaller where less has to be under way "
            "(rendezvous/README.md)"},
           &Settings::chunk_bytes),
    number_or_auto(
        "reads_max", Kind::count, "auto", 1, 128, 2,
        {"Most RDMA reads that a process has outstanding, over all peers and rails (c). Each rail "
         "may always have one. auto adapts the outstanding bytes to the round trips it measures",
         "A number that is right for one fabric is too large or too small for another"},
        &Settings::reads_max),
    number("reads_window_max", Kind::size, "16MiB", 4 * KiB, 16 * GiB, 4,
           {"With reads_max auto: most bytes of reads outstanding, over all rails, even if round "
            "trips stay short",
            "400 Gbit/s deliver so much in 300us"},
           &Settings::reads_window_max_bytes),
    number("offload_min", Kind::size, "1MiB", 0, 1024 * GiB, 3,
           {"A get of at least this size goes to the adapter as a chain of reads, while no other "
            "transfer reads. The chain has a second queue pair with max_rd_atomic c. 0 means never",
            "A chain moves on without software, but its c is fixed when the queue pair is made"},
           &Settings::offload_bytes),
    number_or_auto("registration_memory_max", Kind::size, "auto", 0, 1024 * GiB, 3,
                   {"Cap on registered memory of the application in one process, counted once for "
                    "each rail; 0 copies all messages. auto takes the process's share of half the "
                    "memory, and at most three quarters of the locked-memory limit",
                    "Registered memory cannot be paged out, and receive buffers need some, too"},
                   &Settings::registration_bytes),
    choice("overlap", "off, auto, on, all", "auto", 2,
           {"Whether large messages move while the application computes outside of MPI: a thread "
            "then handles what arrives. auto: where the program asks for threads "
            "(MPI_THREAD_FUNNELED or more; Open MPI 5: MPI_THREAD_MULTIPLE), unless the node has "
            "more processes than processors. on: always, and Open MPI then locks as for threads. "
            "all: as on, and for non-blocking collectives, whose reductions that thread may call. In "
            "Open MPI 4.1 these rest while there is a window, except with --mca osc ^pt2pt",
            "Where the program asks for threads, Open MPI locks anyway, and the thread costs a "
            "small message some per cent. Elsewhere the locks would cost 2 to 4 % more. On a full "
            "node the thread takes CPUs from ranks that have work"},
           &Settings::overlap),
    text(
        "overlap_cpus", "auto", 4,
        {"CPUs for the threads that move messages with overlap. auto: those of their process. any: "
         "all of the machine, where mpirun has bound the process to one. Or a list such as 7,15-17",
         "A thread beside the computation's core finds the data in that core's caches, and few "
         "nodes have a core to spare"},
        &Settings::overlap_cpus),

    // The node.
    choice("node_sharing", "auto, user, job, off", "auto", 2,
           {"Which processes of the node share the read budget and the tokens of a port. user: all "
            "of the same user. job: all of the same job. off: none. auto: the user's processes "
            "share tokens, and none share the read budget",
            "Processes that compute notice late that their reads ended, and delay those that share "
            "a read budget with them. 'user' is for nodes that receive from more senders than they "
            "can serve: their receivers then leave the fabric to others"},
           &Settings::node_sharing),
    number(
        "proxy_servers", Kind::count, "0", 0, 64, 3,
        {"Processes of a job on a node that send small messages for the others at a time. Messages "
         "to the same process may share a request. 0 means that each process sends its own",
         "A proxy can pay where an adapter slows down with the number of processes that use it. It "
         "copies each message once more, and once again where several share a request"},
        &Settings::proxy_servers),
    choice("admission", "off, thresholds, always", "off", 2,
           {"Whether a request needs a token of the node before it may reach the adapter. off: "
            "never. thresholds: when the tables below say that the node has too much under way. "
            "always: always",
            "Without congestion it can only cost; 'weir tune' finds out whether there is any"},
           &Settings::admission),
    number(
        "tokens", Kind::count, "64", 1, 65535, 3,
        {"Tokens of a node and port. A request that needs more tokens than exist takes all of them",
         "A guess at what an adapter has under way at its best; 'weir tune' measures it"},
        &Settings::tokens),
    number(
        "bytes_per_token", Kind::size, "0", 0, 1 * GiB, Key::measured,
        {"A request takes one token for this many bytes, and at least one; 0 means one for each "
         "request",
         "An adapter's load follows messages more than bytes, unless 'weir tune' finds otherwise"},
        &Settings::bytes_per_token),
    text("cct", "none", Key::measured,
         {"Concurrency congestion threshold, by size of the request: a frame with its headers, or "
          "a chunk. With this many active processes on the node, all requests need tokens. "
          "'64B=12, 4KiB=8' means 12 up to 64 bytes, and 8 above",
          "Only a measurement can tell: 'weir tune'"},
         &Settings::cct),
    text("nrct", "none", Key::measured,
         {"Node congestion threshold, by size of the request as in cct. While the node has this "
          "many requests under way, the next one needs tokens",
          "Only a measurement can tell: 'weir tune'"},
         &Settings::nrct),
    text("crct", "none", Key::measured,
         {"Core congestion threshold, by active processes and size of the request. While one "
          "process has this many requests under way, its next one needs tokens. '1@4KiB=64, "
          "8@4KiB=16' means 16 for 8 active processes and more",
          "Only a measurement can tell: 'weir tune'"},
         &Settings::crct),
    text("delay", "none", Key::measured,
         {"Least time between two requests of a process, by size of the second. It holds where the "
          "node shares no tokens (node_sharing off) and the request would need some. Example: "
          "'64B=500ns, 64KiB=5us'",
          "Only a measurement can tell: 'weir tune', which uses it only where tokens bring less"},
         &Settings::delay),
    number_or_auto("rate_max", Kind::size, "auto", 64 * KiB, 1024 * GiB, 3,
                   {"Most bytes a second that a process sends, reads and writes, over all rails. "
                    "auto sets no limit",
                    "A job that floods others is slowed down, mostly while it runs: 'weir set "
                    "rate_max=10MiB'. Its receivers read large messages, so theirs is the limit "
                    "that holds"},
                   &Settings::rate_max),

    // Connections and time.
    number(
        "connections_max", Kind::count, "0", 0, 1048576, 2,
        {"Connections that a process keeps. Beyond them it ends those unused for longest, and the "
         "next message makes them again. It makes more only while all are in use. 0 means no limit",
         "A connection costs memory, but less than making it again and again. A limit pays in a "
         "job of thousands of processes that each talk to few at a time"},
        &Settings::connections_max),
    number_or_auto(
        "rnr_timer", Kind::duration, "640us", 10 * us, 655360 * us, 4,
        {"How long a sender waits when the receiver had no buffer (RNR NAK), rounded up to what "
         "the wire format has. auto follows how long the receive queue was empty. It takes at "
         "least 80us, at least 1us for each peer, and at most 10ms",
         "Credits make an RNR NAK exceptional; MVAPICH2, libfabric and NCCL take the same"},
        &Settings::rnr_timer_ns),
    number("ack_timeout", Kind::duration, "1s", 100 * us, 600 * s, 3,
           {"How long an adapter waits for an acknowledgement before it sends again, rounded up to "
            "4.096us times a power of two",
            "With retry_count it outlasts the longest stall seen on Soft-RoCE, and in the other "
            "profiles a link that retrains. A shorter one breaks connections that are only slow, "
            "and weir has to make them again"},
           &Settings::ack_timeout_ns),
    number("retry_count", Kind::count, "6", 0, 6, 4,
           {"How often an adapter sends again when no acknowledgement comes",
            "On Soft-RoCE 7 means for ever, and then a dead peer is never reported"},
           &Settings::retry_count),
    number("connect_timeout", Kind::duration, "30s", 1 * s, 1 * h, 3,
           {"A peer that does not answer a connection request for this long is given up",
            "An answer takes milliseconds; only a node in deep trouble needs longer"},
           &Settings::connect_timeout_ns),
    number("peer_timeout", Kind::duration, "30s", 2 * s, 24 * h, 1,
           {"A peer that gives no sign of life for this long is given up. weir asks a silent peer "
            "for one now and then, whatever the application does. A connection that breaks earlier "
            "is made again: a shorter outage takes time, but loses nothing",
            "Longer than all retries of the adapter together, and short enough to wait for"},
           &Settings::peer_timeout_ns),

    // At the end.
    choice("summary", "off, on", "off", 3,
           {"At MPI_Finalize rank 0 prints what all ranks sent and read, how fast, what they waited "
            "for, their memory, and the outages they survived. It waits up to 5s for the others",
            "A program's output is its own"},
           &Settings::summary),

    // For tests.
    choice("check_leaks", "off, on", "off", 9,
           {"At MPI_Finalize, name the operations, registrations and buffers that should be over "
            "or given back by then, and are not",
            "It finds mistakes of weir, and of programs that leave requests behind. At the end "
            "they do no harm"},
           &Settings::check_leaks),
};

// A key of an earlier version, and why it is gone.
struct FormerKey {
  std::string_view name;
  const char* why;
};

constexpr std::array former_keys = {
    FormerKey{"credits_max", "a peer's credits follow what it uses, and window_max bounds all"},
    FormerKey{"send_queue_depth",
              "completions come back long before 128 frames are posted, and a deeper queue would "
              "cost memory for each peer"},
    FormerKey{"signal_interval", "one completion in 16 frames hardly costs anything"},
    FormerKey{"bundle_burst",
              "a message and its answer are never held up; bundle_size 0 turns "
              "sharing off"},
    FormerKey{"pending_max",
              "1024 frames may wait for a peer, and send_memory_max bounds those of all peers"},
    FormerKey{"close_timeout", "MPI_Finalize waits at most 10s for sends under way"},
    FormerKey{"window_unattended",
              "messages to a process that computes may as well wait at their sender"},
    FormerKey{"reads_window_min",
              "64KiB, or one read, may always be under way: a switch port buffers about that; "
              "reads_window_max bounds the rest"}};

std::string format(Kind kind, std::int64_t value) {
  switch (kind) {
    case Kind::size: return format_size(value);
    case Kind::duration: return format_duration(value);
    case Kind::count:
    case Kind::choice:
    case Kind::text: break;
  }
  return std::to_string(value);
}

bool parse(Kind kind, std::string_view value, std::int64_t& number, std::string& error) {
  switch (kind) {
    case Kind::size: return parse_size(value, number, error);
    case Kind::duration: return parse_duration(value, number, error);
    case Kind::count:
    case Kind::choice:
    case Kind::text: break;
  }
  return parse_count(value, number, error);
}

bool is_one_of(std::string_view value, std::string_view choices, std::int64_t& place) {
  for (place = 0; !choices.empty(); ++place) {
    const std::size_t end = std::min(choices.find(", "), choices.size());
    if (choices.substr(0, end) == value) return true;
    choices.remove_prefix(std::min(end + 2, choices.size()));
  }
  return false;
}

}  // namespace

std::span<const Key> schema() { return keys; }

const Key* find_key(std::string_view name) {
  for (const Key& key : keys) {
    if (key.name == name) return &key;
  }
  return nullptr;
}

std::vector<const Key*> by_importance() {
  std::vector<const Key*> order;
  for (const Key& key : keys) order.push_back(&key);
  const auto place = [](const Key* key) {
    return key->matters_most() ? 0 : key->is_measured() ? 2 : 1;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](const Key* a, const Key* b) { return place(a) < place(b); });
  return order;
}

const char* why_no_key_any_more(std::string_view name) {
  const auto found = std::find_if(former_keys.begin(), former_keys.end(),
                                  [&](const FormerKey& key) { return key.name == name; });
  return found == former_keys.end() ? nullptr : found->why;
}

std::size_t index_of(const Key& key) { return static_cast<std::size_t>(&key - keys.data()); }

std::string environment_name(const Key& key) {
  std::string name = std::string("WEIR_") + key.name;
  for (char& c : name) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return name;
}

std::string mca_name(const Key& key) { return std::string("btl_weir_") + key.name; }

std::string accepts(const Form& form) {
  if (form.kind == Kind::text) return "text";
  if (form.kind == Kind::choice) return std::string("one of ") + form.choices;
  const char* kind = form.kind == Kind::count  ? "number"
                     : form.kind == Kind::size ? "size"
                                               : "duration";
  return (form.word == nullptr ? "" : std::string(form.word) + " or ") + kind + ", " +
         format(form.kind, form.min) + " to " + format(form.kind, form.max);
}

bool read(const Form& form, std::string_view value, std::int64_t& number, std::string& reason) {
  const auto refuse = [&](const std::string& problem) {
    reason = problem + " (it takes: " + accepts(form) + ")";
    return false;
  };
  const std::string quoted = "'" + std::string(value) + "'";
  std::int64_t read = automatic;
  if (form.kind == Kind::text || form.kind == Kind::choice) {
    if (value.empty()) return refuse("must not be empty");
    if (form.kind == Kind::choice && !is_one_of(value, form.choices, read)) {
      return refuse(quoted + " is not known");
    }
  } else if (form.word == nullptr || value != form.word) {
    std::string problem;
    if (!parse(form.kind, value, read, problem)) return refuse(problem);
    if (read < form.min || read > form.max) return refuse(quoted + " is out of range");
  }
  number = read;
  return true;
}

bool set(Settings& settings, const Key& key, std::string_view value, std::string& reason) {
  std::int64_t number = 0;
  if (!read(key, value, number, reason)) return false;
  if (key.text != nullptr) {
    settings.*key.text = value;
  } else {
    settings.*key.number = number;
  }
  return true;
}

std::string get(const Settings& settings, const Key& key) {
  if (key.text != nullptr) return settings.*key.text;
  const std::int64_t number = settings.*key.number;
  return key.word != nullptr && number == automatic ? key.word : format(key.kind, number);
}

Settings defaults() {
  Settings settings;
  std::string error;
  for (const Key& key : keys) set(settings, key, key.fallback, error);
  return settings;
}

std::int64_t window_by_traffic(const Settings& settings) {
  return settings.window_max == automatic ? std::max(window_max_auto, settings.window_initial)
                                          : settings.window_max;
}

// More than another key allows is no contradiction: the smaller one rules. So lowering one key
// never requires setting a second one.
std::vector<Contradiction> check(const Settings& settings) {
  std::vector<Contradiction> found;
  const auto value = [&](const char* name) {
    return std::string(name) + " (" + get(settings, *find_key(name)) + ")";
  };
  const auto fault = [&](const char* name, const std::string& rule) {
    found.push_back({{find_key(name)}, value(name) + " must " + rule});
  };
  const auto clash = [&](const char* name, const char* rule, const char* other) {
    found.push_back(
        {{find_key(name), find_key(other)}, value(name) + " must " + rule + " " + value(other)});
  };
  if (settings.buffer_bytes % 64 != 0) fault("buffer_size", "be a multiple of 64B");
  if (settings.mtu_bytes != automatic && (settings.mtu_bytes & (settings.mtu_bytes - 1)) != 0) {
    fault("mtu", "be auto, 256B, 512B, 1KiB, 2KiB or 4KiB");
  }
  if (settings.window_max != automatic && settings.window_initial > settings.window_max) {
    clash("window_initial", "not exceed", "window_max");
  }
  const auto table = [&](const char* name, const std::string& text, TableOf kind) {
    std::vector<TableEntry> entries;
    std::string error;
    if (parse_table(text, kind, entries, error)) return;
    found.push_back({{find_key(name)}, std::string(name) + " is no table of values: " + error});
  };
  if (settings.proxy_servers > 0 && settings.node_sharing == "off") {
    clash("proxy_servers", "be 0 with", "node_sharing");
  }
  table("cct", settings.cct, TableOf::counts);
  table("nrct", settings.nrct, TableOf::counts);
  table("crct", settings.crct, TableOf::counts_by_cores);
  table("delay", settings.delay, TableOf::durations);
  if (settings.ack_timeout_ns > settings.peer_timeout_ns) {
    clash("ack_timeout", "not exceed", "peer_timeout");
  }
  return found;
}

}  // namespace weir::config
