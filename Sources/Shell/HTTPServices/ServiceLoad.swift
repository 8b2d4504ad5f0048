import HTTPServer

/// Refuses HTTP requests while the daemon is overloaded (F7), except health probes.
package struct ServiceLoad: Sendable {
    private let seconds: @Sendable () -> Int?

    /// Creates a ``ServiceLoad`` that refuses no HTTP request.
    package init() { seconds = { nil } }

    /// Creates a ``ServiceLoad`` that asks the closure `seconds` about each request, on the event loop. The closure
    /// returns the number of seconds after which the client can try again; `nil` if the request is served.
    package init(refusing seconds: @escaping @Sendable () -> Int?) { self.seconds = seconds }

    func refusal(of request: HTTPRequest) -> Int? {
        let questions = [["healthz"], ["readyz"], ["version"]]
        return questions.contains(request.path) ? nil : seconds()
    }
}
