import Collections
import Synchronization

/// Runs operations one after the other, in the order of their arrival, even if an operation waits for the store.
final class OneAtATime: Sendable {
    private struct State {
        var isBusy = false
        /// The operations that wait for their turn. Few operations wait, because the HTTP server limits the number of
        /// requests.
        var waiting = Queue<CheckedContinuation<Void, Never>>()
    }

    private let state = Mutex(State())

    /// Waits until all earlier operations have ended, and begins an operation. The caller must end the operation with
    /// ``leave()``.
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

    /// Ends the present operation, so that the next operation can begin.
    func leave() {
        let next = state.withLock { state in
            let next = state.waiting.popFirst()
            state.isBusy = next != nil
            return next
        }
        next?.resume()
    }
}
