// weir as the plugin uses it, without MPI: short messages go in a frame, longer ones in a train,
// and the receiver reads those beyond `eager_max`, once they are announced. Puts, gets and atomics
// are the engine's.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "tools/perf/way.h"
#include "transport/config/settings.h"
#include "transport/engine/engine.h"
#include "transport/lane/assembly.h"

namespace weir::tools::perf {

class WeirWay : public Way {
 public:
  WeirWay(const Memory& memory, Engine& engine, const config::Settings& settings);
  // The other end. Before anything else.
  void meet(PeerId peer, const Shown& theirs, bool same_host) {
    peer_ = peer;
    theirs_ = theirs;
    same_host_ = same_host;
  }

  bool send() override;
  bool start(Operation operation) override;
  void poll() override;
  void finish() override { owes_news_ = true; }
  bool settled() const override { return !owes_news_ && greetings_owed_ == 0; }
  std::uint64_t moved() const override;

  // ---- what the engine hands up ----
  void on_message(const Delivery& message);
  void on_retired(SendSlot*, bool) {}
  void on_transfer(const TransferEnd& end);
  void on_failure(const Failure& failure);
  void on_refusal(const Refusal&) {}
  void on_warning(const std::string& what);
  void on_breakdown(const std::string& what) { fail(what); }

 private:
  void send_greeting() override { ++greetings_owed_; }

  // Of messages. `announced`: the payload is the number of a message to be read; `news`: how many
  // have been received.
  enum Tag : std::uint8_t { whole = 1, announced, news, greeting };
  // What the transfers under way are for.
  struct Transfer {
    Operation operation = Operation::get;
    std::uint64_t added = 0;
    bool over = false;
  };

  enum class Came : std::uint8_t { no, whole, read };

  bool send_word(Tag tag, std::uint64_t word);
  Status send_train();
  void take_whole(const std::byte* bytes, std::uint64_t length);
  void take_car(const Delivery& car);
  void read_announced(std::uint64_t number);
  void advance();

  Engine& engine_;
  const std::uint32_t frame_bytes_;
  const std::uint32_t eager_bytes_;
  Assembly assembly_;
  PeerId peer_ = PeerId::none;
  Shown theirs_;
  bool same_host_ = false;

  std::uint64_t told_ = 0;  // of the messages received
  std::uint64_t added_ = 0;
  std::uint64_t arrived_ = 0;  // messages, or announcements of them
  std::uint32_t trains_ = 0;
  std::uint32_t greetings_owed_ = 0;
  bool owes_news_ = false;
  std::array<Transfer, places> transfers_{};  // by number
  std::array<Came, places> came_{};           // messages, by number
};

}  // namespace weir::tools::perf
