import HTTP1Connections
import HTTP2Connections
package import HTTPClient
package import Reactor

extension HTTPSession {
    package convenience init(on loop: EventLoop, limits: Limits = Limits()) {
        self.init(on: loop, limits: limits, over: [HTTP2Transport.self, HTTP1Transport.self])
    }

    /// Sends a request from any task, and waits for the response. If the task is cancelled, the request is cancelled.
    ///
    /// The default time limit becomes 300 s, because a test can wait long on a busy machine.
    package nonisolated func response(
        to request: HTTPClientRequest
    ) async throws(HTTPClientError) -> HTTPClientResponse {
        var request = request
        if request.timeout == .seconds(10) { request.timeout = .seconds(300) }
        let slot = Locked(Slot())
        let outcome: Result<HTTPClientResponse, HTTPClientError> = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                onLoop { [request] in
                    let exchange = self.send(request) { continuation.resume(returning: $0) }
                    let isCancelled = slot.withLock { slot in
                        slot.exchange = exchange
                        return slot.isCancelled
                    }
                    if isCancelled { exchange.cancel() }
                }
            }
        } onCancel: {
            onLoop {
                let exchange = slot.withLock { slot in
                    slot.isCancelled = true
                    return slot.exchange
                }
                exchange?.cancel()
            }
        }
        return try outcome.get()
    }

    private struct Slot {
        var exchange: HTTPExchange?
        var isCancelled = false
    }

    private nonisolated func onLoop(_ job: @escaping @Sendable () -> Void) {
        if loop.isCurrent { job() } else { loop.post(job) }
    }
}
