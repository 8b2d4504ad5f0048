import HTTP2
import HTTPClient
import Reactor
import Timekeeping

/// Health checks: the connection sends PINGs while the server is silent, and counts as sick if a PING is not answered.
extension HTTP2Connection {
    /// Records that bytes have arrived from the server, which shows that the server is alive.
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
                // The origin learns here that this connection is sick, and opens a second connection.
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

    /// The time at which the next PING is due. While requests wait for answers, the pause doubles after each PING,
    /// because the server may simply need much time for a request.
    private var nextPing: Instant {
        guard client.openCount > 0 else { return lastHeard + limits.pingInterval }
        let pause = min(limits.answerPatience * (1 << min(quietPings, 10)), limits.pingInterval)
        return max(lastHeard, busySince) + pause
    }

    /// Arms the timer for the next check, or for an earlier time. Arming the timer too early costs little.
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
