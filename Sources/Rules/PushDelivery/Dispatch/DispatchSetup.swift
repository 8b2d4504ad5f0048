/// What pushes are sent with: the apps, what their requests carry, and limits.
package struct DispatchSetup: Sendable {
    package var directory: PushDirectory
    package var credentials: PushCredentials
    /// How long a provider may take to answer.
    package var answerTimeout: Duration = .seconds(5)
    /// Requests under way to a server without TLS.
    package var plainLimit = 32
    /// Notifications at a time, those in pauses included; they take none of the places of other pushes.
    package var notificationLimit = 10_000
    /// Spreads the tries of pushes that failed together.
    package var seed: UInt64 = 1

    package init(_ directory: PushDirectory, _ credentials: PushCredentials = PushCredentials()) {
        self.directory = directory
        self.credentials = credentials
    }
}
