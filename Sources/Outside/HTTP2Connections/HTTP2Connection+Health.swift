import HTTP2
import HTTPClient
import Reactor
import Timekeeping

/// Checks a silent connection by PINGs; a connection with an unanswered PING is treated as unresponsive.
extension HTTP2Connection {
    /// Notes that bytes have arrived from the server.
    func heard(now: Instant) {
        lastHeard = now
        asked = nil
        sickSince = nil
        if checkTimer?.deadline == nil { arm(now: now) }
    }

    func becameBusy(now: Instant) {
        busySince = now
        quietPings = 0
        arm(now: now)
    }

    func becameIdle(now: Instant) { idleSince = now }

    func check() {
        guard isOpen else { return }
        let now = loop.now
        if let asked {
            if let sickSince {
                if now >= sickSince + limits.sickPatience {
                    return end(HTTPClientError(.reset, detail: "the server does not respond"))
                }
            } else if now >= asked + limits.pingPatience {
                sickSince = now
                // The origin then notices the unresponsive connection, and opens a second connection.
                origin?.flushSoon()
            }
        } else if now >= nextPing {
            quietPings += 1
            asked = now
            client.ping()
            write()
        }
        if client.openCount == 0, now >= idleSince + .seconds(limits.idleSeconds), origin?.isKeptWarm == false {
            retire()
            origin?.flushSoon()
        }
        arm(now: now)
    }

    /// The time of the connection's next PING. While requests wait, the pause doubles after each PING, because some
    /// requests take the server much time.
    private var nextPing: Instant {
        guard client.openCount > 0 else { return lastHeard + limits.pingInterval }
        let pause = min(limits.answerPatience * (1 << min(quietPings, 10)), limits.pingInterval)
        return max(lastHeard, busySince) + pause
    }

    /// Sets the timer to the instant of the next check. A timer that fires earlier stays unchanged, because firing too
    /// early costs little.
    private func arm(now: Instant) {
        let next =
            if let sickSince { sickSince + limits.sickPatience } else if let asked { asked + limits.pingPatience } else
            {
                nextPing
            }
        if let deadline = checkTimer?.deadline, deadline <= next { return }
        checkTimer?.arm(at: next)
    }
}
