#include "fabric/wrap/check.hpp"

#include <mutex>
#include <set>
#include <tuple>

#include "base/log.hpp"

namespace tutti::wrap {
namespace {

constexpr std::uint64_t kMostLines = 20;    // in the log; all are counted
constexpr std::size_t kMostKeys = 100'000;  // remembered; then it begins anew

/// Regions that ranks of this process have withdrawn and not exposed again, by their keys: where
/// ranks are threads, a peer's use after withdrawal is found too.
class Withdrawn {
 public:
  void add(const Key& key) {
    const std::lock_guard lock(mutex_);
    if (keys_.size() >= kMostKeys) keys_.clear();
    keys_.insert(tuple_of(key));
  }
  void remove(const Key& key) {
    const std::lock_guard lock(mutex_);
    keys_.erase(tuple_of(key));
  }
  bool has(const Key& key) {
    const std::lock_guard lock(mutex_);
    return keys_.count(tuple_of(key)) != 0;
  }

 private:
  using Tuple = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t>;
  static Tuple tuple_of(const Key& key) {
    return {key.words[0], key.words[1], key.words[2], key.words[3]};
  }
  std::mutex mutex_;
  std::set<Tuple> keys_;
};

Withdrawn& withdrawn() {
  static Withdrawn all;
  return all;
}

}  // namespace

class Check::Entry {
 public:
  explicit Entry(Check& check) noexcept : check_(check) {
    if (check_.inside_.fetch_add(1, std::memory_order_acquire) != 0) {
      check_.violation("two threads are inside the fabric at once", check_.rank());
    }
  }
  ~Entry() { check_.inside_.fetch_sub(1, std::memory_order_release); }
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;

 private:
  Check& check_;
};

Check::Check(std::unique_ptr<Fabric> wrapped) : Forward(std::move(wrapped), true) {}

Check::~Check() {
  if (!open_.empty()) violation("a completion is still open at the end", rank_);
  for (const auto& [region, times] : exposed_) {
    if (times == 0) continue;
    violation("a region was never withdrawn", rank_);
    break;
  }
}

void Check::violation(const char* what, std::int32_t peer) noexcept {
  const std::uint64_t number = violations_.fetch_add(1, std::memory_order_relaxed);
  if (number < kMostLines)
    log(LogLevel::error, "check: %s (rank %d, towards %d)", what, rank_, peer);
}

Status Check::refuse(Code code, const char* what, std::int32_t peer) noexcept {
  violation(what, peer);
  return {code, peer, what};
}

Status Check::expose(void* base, std::size_t bytes, Region* out) noexcept {
  const Entry entry(*this);
  if (base == nullptr && bytes != 0)
    return refuse(Code::invalid_argument, "nothing is exposed", rank_);
  TUTTI_TRY(inner().expose(base, bytes, out));
  ++exposed_[{reinterpret_cast<std::uint64_t>(base), bytes}];
  withdrawn().remove(out->key);
  return Status::success();
}

void Check::withdraw(Region& region) noexcept {
  const Entry entry(*this);
  const auto place = exposed_.find({reinterpret_cast<std::uint64_t>(region.base), region.bytes});
  if (place == exposed_.end() || place->second == 0) {
    violation("a region is withdrawn that is not exposed", rank_);
    return;
  }
  if (--place->second == 0) {
    exposed_.erase(place);
    withdrawn().add(region.key);
  }
  inner().withdraw(region);
}

Status Check::arena_of(std::int32_t peer, Remote* out) noexcept {
  TUTTI_TRY(inner().arena_of(peer, out));
  withdrawn().remove(
      out->key);  // somebody exposed and withdrew all of it: it is there all the same
  return Status::success();
}

Status Check::attach(std::int32_t peer, const Key& key, Remote* out) noexcept {
  const Entry entry(*this);
  if (withdrawn().has(key))
    return refuse(Code::invalid_argument, "a region is attached after its withdrawal", peer);
  tails_.erase({peer, std::to_array(key.words)});  // memory may have got the key of an earlier one
  return inner().attach(peer, key, out);
}

Status Check::reserve(std::size_t offset, std::size_t bytes) noexcept {
  const Entry entry(*this);
  return inner().reserve(offset, bytes);
}

Status Check::check_completion(Completion* completion, std::int32_t peer) noexcept {
  if (completion == nullptr) return Status::success();
  if (completion->finished() > completion->posted()) {
    return refuse(Code::invalid_argument, "a completion has counted more than was posted", peer);
  }
  // What has counted is forgotten at once (settle), so a smaller number at the same place is
  // another object.
  const auto place = open_.find(completion);
  if (place != open_.end() && completion->posted() < place->second) {
    open_.erase(place);
    return refuse(Code::invalid_argument,
                  "a completion was given up while operations counted on it", peer);
  }
  return Status::success();
}

void Check::check_tail(const Remote& target, const Tail& tail) noexcept {
  std::uint64_t before;
  if (target.mapped != nullptr) {
    const auto* word =
        reinterpret_cast<const Word*>(static_cast<const std::byte*>(target.mapped) + tail.offset);
    before = word->load(std::memory_order_relaxed);
  } else {
    std::uint64_t& last = tails_[{target.peer, std::to_array(target.key.words)}][tail.offset];
    before = last;
    last = tail.value;
  }
  if (tail.value < before) violation("a counter goes back", target.peer);
}

Status Check::check_transfer(const Remote& remote, std::size_t offset, std::size_t bytes,
                             const Tail* tail, Completion* completion) noexcept {
  if (remote.peer < 0 || remote.peer >= size_) {
    return refuse(Code::invalid_argument, "the remote region has no owner", remote.peer);
  }
  if (offset > remote.bytes || bytes > remote.bytes - offset) {
    return refuse(Code::truncated, "a range outside the remote region", remote.peer);
  }
  if (tail != nullptr &&
      (remote.bytes < sizeof(Word) || tail->offset > remote.bytes - sizeof(Word))) {
    return refuse(Code::truncated, "a counter outside the remote region", remote.peer);
  }
  if (tail != nullptr && tail->offset % sizeof(Word) != 0) {
    return refuse(Code::invalid_argument, "a counter that is not aligned", remote.peer);
  }
  if (tail != nullptr && bytes != 0 && tail->offset < offset + bytes &&
      offset < tail->offset + sizeof(Word)) {
    return refuse(Code::invalid_argument, "the data lies over its own counter", remote.peer);
  }
  if (withdrawn().has(remote.key)) {
    return refuse(Code::invalid_argument, "a region is used after its withdrawal", remote.peer);
  }
  return check_completion(completion, remote.peer);
}

Status Check::put(const Remote& target, std::size_t offset, const void* source, std::size_t bytes,
                  const Tail* tail, Completion* completion, Event event) noexcept {
  const Entry entry(*this);
  if (source == nullptr && bytes != 0)
    return refuse(Code::invalid_argument, "a put from nowhere", target.peer);
  TUTTI_TRY(check_transfer(target, offset, bytes, tail, completion));
  if (tail != nullptr) check_tail(target, *tail);
  TUTTI_TRY(inner().put(target, offset, source, bytes, tail, completion, event));
  if (completion != nullptr) open_[completion] = completion->posted();
  settle();
  return Status::success();
}

Status Check::get(const Remote& source, std::size_t offset, void* destination, std::size_t bytes,
                  Completion* completion) noexcept {
  const Entry entry(*this);
  if (completion == nullptr)
    return refuse(Code::invalid_argument, "a get without a completion", source.peer);
  if (destination == nullptr && bytes != 0)
    return refuse(Code::invalid_argument, "a get to nowhere", source.peer);
  TUTTI_TRY(check_transfer(source, offset, bytes, nullptr, completion));
  TUTTI_TRY(inner().get(source, offset, destination, bytes, completion));
  open_[completion] = completion->posted();
  settle();
  return Status::success();
}

void Check::settle() noexcept {
  std::erase_if(open_, [](const auto& item) { return item.first->finished() >= item.second; });
}

void Check::progress() noexcept {
  const Entry entry(*this);
  inner().progress();
  settle();
}

std::uint32_t Check::arm(Attention attention) noexcept {
  armed_.fetch_add(1, std::memory_order_relaxed);
  return inner().arm(attention);
}

void Check::sleep(std::uint32_t ticket, std::uint64_t timeout_ns, Attention attention) noexcept {
  if (armed_.load(std::memory_order_relaxed) <= 0) violation("a sleep without arm", rank_);
  inner().sleep(ticket, timeout_ns, attention);
}

void Check::disarm(Attention attention) noexcept {
  if (armed_.fetch_sub(1, std::memory_order_relaxed) <= 0) {
    armed_.fetch_add(1, std::memory_order_relaxed);
    violation("a disarm without arm", rank_);
    return;
  }
  inner().disarm(attention);
}

void Check::signal_virtually(std::int32_t peer, Word& word, std::uint64_t value) noexcept {
  if (reinterpret_cast<std::uintptr_t>(&word) % sizeof(Word) != 0)
    violation("a word that is not aligned", peer);
  if (value < word.load(std::memory_order_relaxed)) violation("a word goes back", peer);
  inner().signal(peer, word, value);
}

}  // namespace tutti::wrap
