import Collections
import Synchronization

/// Lets one operation end before the next one begins, in the order in which they came. Each of them waits for the store,
/// and decides by a state that the one before may change.
final class OneAtATime: Sendable {
    private struct State {
        var isBusy = false
        /// The HTTP server limits the number of requests that wait.
        var waiting = Queue<CheckedContinuation<Void, Never>>()
    }

    private let state = Mutex(State())

    /// Returns when all earlier operations have ended. Each call needs a ``leave()``.
    func enter() async {
        await withCheckedContinuation { turn in
            let isFree = state.withLock { state in
                guard !state.isBusy else {
                    state.waiting.append(turn)
                    return false
                }
                state.isBusy = true
                return true
            }
            if isFree { turn.resume() }
        }
    }

    /// The operation has ended.
    func leave() {
        let next = state.withLock { state in
            let next = state.waiting.popFirst()
            state.isBusy = next != nil
            return next
        }
        next?.resume()
    }
}
