package import HTTPClient
import Reactor

extension HTTPSession {
    /// Sends a request on a new loop, and blocks the thread until it has ended, for command-line tools only.
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
