package import Bytes
package import PushDelivery
package import Registration
package import SIPGrammar

/// Functions the rules need and may not contain: they come from libraries, or would not repeat in a test.
package struct ProxyFunctions {
    package let seal: DialogSeal
    package let random: () -> UInt64
    /// Reads a kept request again; its bytes were read before, so `nil` never comes from a peer.
    package let reread: (ByteString) -> SIPRequest?
    package let digest: DigestFunctions

    package init(
        seal: DialogSeal, random: @escaping () -> UInt64,
        reread: @escaping (ByteString) -> SIPRequest?, digest: DigestFunctions
    ) {
        self.seal = seal
        self.random = random
        self.reread = reread
        self.digest = digest
    }
}

/// What was on disk when the program started, less the bindings: ``ProxyEngine/restore(_:now:)`` takes them one by one.
package struct StoredState: Sendable {
    package var users: UserDirectory
    package var bucketEntries: [StoredBucketEntry]
    package var disabledProviders: Set<PushProvider>
    package var messages: [StoredMessage]

    package init(
        users: UserDirectory = UserDirectory(), bucketEntries: [StoredBucketEntry] = [],
        disabledProviders: Set<PushProvider> = [], messages: [StoredMessage] = []
    ) {
        self.users = users
        self.bucketEntries = bucketEntries
        self.disabledProviders = disabledProviders
        self.messages = messages
    }
}
