package import Addressing
package import Bytes
package import PushDelivery
package import Registration
package import SIPGrammar

/// Functions that the rules need but must not contain, because they come from libraries or are not deterministic.
package struct ProxyFunctions {
    package let seal: DialogSeal
    package let random: () -> UInt64
    /// Parses a kept request again. The result is never `nil` in practice, because the bytes were parsed before.
    package let reread: (ByteString) -> SIPRequest?
    package let packing: RequestPacking
    package let digest: DigestFunctions
    /// The code by which an app that got a push names its device to us.
    package let deviceCode: (DeviceID) -> ByteString?

    package init(
        seal: DialogSeal, random: @escaping () -> UInt64,
        reread: @escaping (ByteString) -> SIPRequest?, packing: RequestPacking, digest: DigestFunctions,
        deviceCode: @escaping (DeviceID) -> ByteString? = { _ in nil }
    ) {
        self.seal = seal
        self.random = random
        self.reread = reread
        self.packing = packing
        self.digest = digest
        self.deviceCode = deviceCode
    }
}

/// Compresses the bytes of a request against the bytes of a similar request.
package struct RequestPacking {
    /// Compresses bytes against a sample. `nil` if the result would exceed `limit` bytes.
    package let pack: (_ bytes: ByteString, _ sample: ByteString, _ limit: Int) -> ByteString?
    /// Restores `count` bytes that were packed with the same sample. The result is never `nil` in practice.
    package let unpack: (_ packed: ByteString, _ sample: ByteString, _ count: Int) -> ByteString?

    package init(
        pack: @escaping (_ bytes: ByteString, _ sample: ByteString, _ limit: Int) -> ByteString?,
        unpack: @escaping (_ packed: ByteString, _ sample: ByteString, _ count: Int) -> ByteString?
    ) {
        self.pack = pack
        self.unpack = unpack
    }
}

/// The stored state at start-up, without the bindings. ``ProxyEngine/restore(_:now:)`` takes the bindings one by one.
package struct StoredState: Sendable {
    package var users: UserDirectory
    package var bucketEntries: [StoredBucketEntry]
    package var disabledProviders: Set<PushProvider>
    package var pausedProviders: Set<PushProvider>
    package var messages: [StoredMessage]

    package init(
        users: UserDirectory = UserDirectory(), bucketEntries: [StoredBucketEntry] = [],
        disabledProviders: Set<PushProvider> = [], pausedProviders: Set<PushProvider> = [],
        messages: [StoredMessage] = []
    ) {
        self.users = users
        self.bucketEntries = bucketEntries
        self.disabledProviders = disabledProviders
        self.pausedProviders = pausedProviders
        self.messages = messages
    }
}
