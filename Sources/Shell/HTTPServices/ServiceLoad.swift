import HTTPServer

/// Refuses HTTP requests while the daemon is overloaded (F7), except health probes.
package struct ServiceLoad: Sendable {
    private let seconds: @Sendable () -> Int?

    /// Creates a value that refuses no request.
    package init() { seconds = { nil } }

    /// Creates a value that decides about each request with the closure `seconds`, which is called on the event loop.
    /// The closure returns the number of seconds after which the client can try again, or `nil` if the request is
    /// served.
    package init(refusing seconds: @escaping @Sendable () -> Int?) { self.seconds = seconds }

    func refusal(of request: HTTPRequest) -> Int? {
        let questions = [["healthz"], ["readyz"], ["version"]]
        return questions.contains(request.path) ? nil : seconds()
    }
}
