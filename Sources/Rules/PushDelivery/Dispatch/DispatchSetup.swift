/// The setup of the dispatcher: the apps, their credentials, and limits.
package struct DispatchSetup: Sendable {
    package var directory: PushDirectory
    package var credentials: PushCredentials
    /// How long a provider may take to answer.
    package var answerTimeout: Duration = .seconds(5)
    /// The maximum number of parallel requests to a server without TLS.
    package var plainLimit = 32
    /// The maximum number of active notifications. Notifications that pause between tries count, too. Other pushes have
    /// their own limits.
    package var notificationLimit = 10_000
    /// The seed of the random pauses that spread the retries of pushes that failed together.
    package var seed: UInt64 = 1

    package init(_ directory: PushDirectory, _ credentials: PushCredentials = PushCredentials()) {
        self.directory = directory
        self.credentials = credentials
    }
}
