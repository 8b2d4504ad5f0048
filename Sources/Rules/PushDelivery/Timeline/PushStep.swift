/// A step in the delivery of a push to its provider.
package enum PushStep: Hashable, Sendable {
    /// The push waits in the queue of the app's server.
    ///
    /// - Parameter app: the name of the app whose server gets the push.
    case queued(app: String)
    /// The push was refused before it entered the queue; the step ``finished(_:)`` follows.
    case refused(PushRefusal)
    /// The HTTP client got the request of a try.
    case sent
    /// The try has its result: the HTTP status of the answer or, without an answer, the error of the HTTP client.
    case answered(PushOutcome, status: Int?, problem: String?)
    /// The push has its outcome, and no more tries follow.
    case finished(PushOutcome)
    /// The push was withdrawn before it had an outcome.
    case withdrawn
}

/// The reason why a push was refused before the push entered the queue.
package enum PushRefusal: Hashable, Sendable {
    case queueFull
    /// The token belongs to no app in the settings.
    case noApp
    /// The push was not sent, because an operator has paused the provider.
    case paused
}
