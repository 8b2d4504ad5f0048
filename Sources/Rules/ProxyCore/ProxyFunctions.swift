package import Addressing
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
    package let packing: RequestPacking
    package let digest: DigestFunctions
    /// How an app that gets a push is to name its device to us.
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

/// Writes the bytes of a request in fewer ones, where they are like those of another one.
package struct RequestPacking {
    /// `nil` when that would take more than so many bytes.
    package let pack: (_ bytes: ByteString, _ sample: ByteString, _ limit: Int) -> ByteString?
    /// What was packed by that sample, which has so many bytes; `nil` never comes.
    package let unpack: (_ packed: ByteString, _ sample: ByteString, _ count: Int) -> ByteString?

    package init(
        pack: @escaping (_ bytes: ByteString, _ sample: ByteString, _ limit: Int) -> ByteString?,
        unpack: @escaping (_ packed: ByteString, _ sample: ByteString, _ count: Int) -> ByteString?
    ) {
        self.pack = pack
        self.unpack = unpack
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
