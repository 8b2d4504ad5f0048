import HTTPServer

/// Refuses HTTP requests while the daemon is overloaded (F7), except health probes.
package struct ServiceLoad: Sendable {
    private let seconds: @Sendable () -> Int?

    /// Creates a value that refuses no request.
    package init() { seconds = { nil } }

    /// Creates a value that calls `seconds` on the loop for each request. `seconds` returns the time after which the
    /// client may retry, or `nil` if the request is served.
    package init(refusing seconds: @escaping @Sendable () -> Int?) { self.seconds = seconds }

    func refusal(of request: HTTPRequest) -> Int? {
        let questions = [["healthz"], ["readyz"], ["version"]]
        return questions.contains(request.path) ? nil : seconds()
    }
}
