import HTTP2
import HTTPClient
import Reactor
import Timekeeping

/// Health checks: the connection sends PINGs while the server is silent, and reacts to missing answers.
extension HTTP2Connection {
    /// Call when bytes arrive from the server. They show that the server is alive.
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
                // The origin now sees that this connection is sick, and opens another one.
                origin?.flushSoon()
            }
        } else if now >= nextPing {
            quietPings += 1
            asked = now
            client.ping()
            write()
        }
        if client.openCount == 0, now >= idleSince + .seconds(HTTPSession.idleSeconds), origin?.isKeptWarm == false {
            retire()
            origin?.flushSoon()
        }
        arm(now: now)
    }

    /// The time of the next PING. While requests wait for answers, the pause doubles after each PING, because a request
    /// may simply take long.
    private var nextPing: Instant {
        guard client.openCount > 0 else { return lastHeard + limits.pingInterval }
        let pause = min(limits.answerPatience * (1 << min(quietPings, 10)), limits.pingInterval)
        return max(lastHeard, busySince) + pause
    }

    /// Arms the timer so that the next check is not late. An early check costs little.
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
