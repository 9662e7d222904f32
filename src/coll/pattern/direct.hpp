// Messages straight into the receiver's memory (VIA-2003, section 3.3): the receiver invites the
// sender by mailing the key of its buffer, the sender puts there, and mails that it is done.
#pragma once

#include <cstddef>
#include <cstdint>

#include "coll/collective.hpp"
#include "coll/pattern/move.hpp"

namespace tutti {

/// Steps of the mail between two members: the invitation comes first, whoever sends it.
inline constexpr std::uint64_t kInvited = 1, kArrived = 2;

/// A buffer of this rank that others put into, for the life of an algorithm.
class Window {
 public:
  explicit Window(Collective& c) noexcept : team_(c.team) {}
  ~Window() {
    if (open_) team_.fabric().withdraw(region_);
  }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  Status open(void* base, std::size_t bytes) noexcept {
    TUTTI_TRY(team_.fabric().expose(base, bytes, &region_));
    open_ = true;
    return Status::success();
  }
  Status invite(Collective& c, int member) noexcept {
    return c.mail(member, kInvited, &region_.key);
  }
  const Key& key() const noexcept { return region_.key; }

 private:
  Team& team_;
  Region region_;
  bool open_ = false;
};

/// Puts to the buffer that `member` has invited to. Its kInvited must have been awaited.
inline Status put_direct(Collective& c, int member, std::size_t offset, const void* data,
                         std::size_t bytes, Completion* sent) noexcept {
  Remote remote;
  TUTTI_TRY(c.team.fabric().attach(c.team.job_rank(member), c.mail_key(member), &remote));
  return bytes == 0 ? Status::success()
                    : c.team.fabric().put(remote, offset, data, bytes, nullptr, sent);
}

}  // namespace tutti
