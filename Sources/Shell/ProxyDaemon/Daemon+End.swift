import HTTPServices
import OperatorPage
import ProxyCore
import ProxyRuntime
import Reactor
import Telemetry
import Timekeeping

/// The end of the daemon: signals, draining and stopping.
extension Daemon {
    /// Handles SIGTERM and SIGINT. After the first signal, waiting and ringing calls get the drain time to end; the
    /// second signal stops the daemon immediately.
    func endSignalled() async {
        let time = settings.shutdown.drainTime
        guard !wasSignalled, time > .zero else { return await stop() }
        wasSignalled = true
        _ = await drain(within: time)
    }

    /// Refuses new calls, and stops the daemon when all waiting and ringing calls have ended, or after the given time.
    /// A second call of ``drain(within:)`` can only shorten the time.
    ///
    /// - Returns: the number of calls that wait or ring.
    func drain(within time: Duration) async -> Int {
        let (calls, isFirst) = (await door.drain(), end == nil)
        end = min(end ?? .distantFuture, loop.now + time)
        if isFirst {
            if calls > 0, time > .zero {
                log.notice("the daemon stops when its calls have ended", [.count: .number(calls)])
            }
            loop.startTask { [self] _ in await endWhenDrained() }
        }
        return calls
    }

    private func endWhenDrained() async {
        var calls = 0
        repeat {
            calls = await door.ask(.everything) { engine, _ in engine.callsUnderWay }
            notices?.drains(calls)
            guard let end, end > loop.now else { break }
            // During the pause, the daemon sends the last messages of the last call.
            do { try await loop.pause(Self.drainPause) } catch { break }
        } while calls > 0
        if calls > 0 { log.notice("the daemon stops although calls still wait or ring", [.count: .number(calls)]) }
        await stop()
    }

    private static let drainPause: Duration = .milliseconds(100)

    private func stop() async {
        notices?.stops()
        await door.ask(.everything) { engine, now in engine.stopped(now: now) }
        // The pause lets the loop send the last event of each stream.
        if live?.stops() == true { try? await loop.pause(Self.drainPause) }
        await withCheckedContinuation { waiter in taps.endSpans { waiter.resume() } }
        events.close()
        loop.stop()
    }
}
