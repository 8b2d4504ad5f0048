/// The settings of the ``PushDispatcher``: the apps, their credentials, and the limits.
package struct DispatchSetup: Sendable {
    package var directory: PushDirectory
    package var credentials: PushCredentials
    /// The time limit for a provider's answer to a request.
    package var answerTimeout: Duration = .seconds(5)
    /// The maximum number of parallel requests to a server without TLS.
    package var plainLimit = 32
    /// The maximum number of active notifications, including notifications that pause between tries. Pushes for calls
    /// and lists of missed calls have their own limits.
    package var notificationLimit = 10_000
    /// The random seed of the pauses between tries, so that pushes that failed together are retried at different times.
    package var seed: UInt64 = 1

    package init(_ directory: PushDirectory, _ credentials: PushCredentials = PushCredentials()) {
        self.directory = directory
        self.credentials = credentials
    }
}
