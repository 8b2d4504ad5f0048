package import HTTPClient
import Reactor

extension HTTPSession {
    /// Sends a request on a new loop, and blocks until the request has ended. Only command-line tools use
    /// ``wait(for:)``, because ``wait(for:)`` blocks the thread.
    package static func wait(for request: HTTPClientRequest) throws(HTTPClientError) -> HTTPClientResponse {
        let loop: EventLoop
        do {
            loop = try EventLoop()
        } catch {
            throw HTTPClientError(.failed, detail: error.description)
        }
        let session = HTTPSession(on: loop, over: [HTTP1Transport.self])
        var outcome: Result<HTTPClientResponse, HTTPClientError>?
        session.send(request) { result in
            outcome = result
            loop.stop()
        }
        loop.run()
        session.close()
        guard let outcome else { throw HTTPClientError(.failed) }
        return try outcome.get()
    }
}
