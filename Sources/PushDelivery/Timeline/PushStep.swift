/// What happens to a push on its way to the provider, told as it happens.
package enum PushStep: Hashable, Sendable {
    /// The push waits for its turn.
    ///
    /// - Parameter app: the name of the app whose way it goes.
    case queued(app: String)
    /// The push cannot even wait; ``finished(_:)`` follows.
    case refused(PushRefusal)
    /// A try was handed to HTTP: the first one, or one after a pause.
    case sent
    /// What became of that try: the status if there was an answer, otherwise what the HTTP client says.
    case answered(PushOutcome, status: Int?, problem: String?)
    /// The outcome of the push. There are no more tries.
    case finished(PushOutcome)
    /// The push was taken back before it had an outcome.
    case withdrawn
}

/// Why a push is not even queued.
package enum PushRefusal: Hashable, Sendable {
    case queueFull
    /// The token belongs to no app of the settings.
    case noApp
}
