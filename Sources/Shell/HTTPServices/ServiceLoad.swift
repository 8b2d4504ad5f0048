import HTTPServer

/// Sends requests away while there is more to do than can be done in time (F7). Whoever asks how the daemon is gets his answer.
package struct ServiceLoad: Sendable {
    private let seconds: @Sendable () -> Int?

    /// Nobody is sent away.
    package init() { seconds = { nil } }

    /// `seconds` says on the loop, for each request, after which time it may come again; `nil` when it is served.
    package init(refusing seconds: @escaping @Sendable () -> Int?) { self.seconds = seconds }

    func refusal(of request: HTTPRequest) -> Int? {
        let questions = [["healthz"], ["readyz"], ["version"]]
        return questions.contains(request.path) ? nil : seconds()
    }
}
