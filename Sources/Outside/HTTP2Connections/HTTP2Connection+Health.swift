import HTTP2
import HTTPClient
import Reactor
import Timekeeping

/// Signs of life: PINGs when the server is silent, and what follows from silence.
extension HTTP2Connection {
    /// Any byte of the server is a sign of life.
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
                    return end(HTTPClientError(.reset, detail: "the server is silent"))
                }
            } else if now >= asked + limits.pingPatience {
                sickSince = now
                // The origin opens another connection when it looks at this one.
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

    /// When the server is next asked for a sign of life. While requests wait for answers, the pause doubles each time,
    /// since a request may just take its time.
    private var nextPing: Instant {
        guard client.openCount > 0 else { return lastHeard + limits.pingInterval }
        let pause = min(limits.answerPatience * (1 << min(quietPings, 10)), limits.pingInterval)
        return max(lastHeard, busySince) + pause
    }

    /// Sees to it that the next check is not late. Checks that come early cost little.
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
