package import Addressing
package import Bytes
package import Calling
package import Messaging
package import PushDelivery
import PushPlanning
package import Registration
package import SIPDialogs
package import SIPGrammar

/// Functions that the rules call but do not contain, because they come from libraries or are not deterministic.
package struct ProxyFunctions {
    package let seal: DialogSeal
    package let random: () -> UInt64
    /// Parses a kept request again; the result is never `nil` in practice, because the same bytes were parsed before.
    package let reread: (ByteString) -> SIPRequest?
    package let packing: RequestPacking
    package let digest: DigestFunctions
    /// The code that stands for a device in the daemon's pushes, and in the app's reports to the daemon.
    package let deviceCode: (DeviceID) -> ByteString?
    /// A code that depends on a secret of the store, so that it is the same in every run. Users get their tokens at a
    /// PBX from it.
    package let upstreamCode: ([UInt8]) -> [UInt8]

    package init(
        seal: DialogSeal, random: @escaping () -> UInt64,
        reread: @escaping (ByteString) -> SIPRequest?, packing: RequestPacking, digest: DigestFunctions,
        deviceCode: @escaping (DeviceID) -> ByteString? = { _ in nil },
        upstreamCode: (([UInt8]) -> [UInt8])? = nil
    ) {
        self.seal = seal
        self.random = random
        self.reread = reread
        self.packing = packing
        self.digest = digest
        self.deviceCode = deviceCode
        self.upstreamCode = upstreamCode ?? digest.code
    }
}

/// The stored state at start-up, except the bindings, which ``ProxyEngine/restore(_:now:)`` restores one by one.
package struct StoredState: Sendable {
    package var users: UserDirectory
    package var bucketEntries: [StoredBucketEntry]
    package var disabledProviders: Set<PushProvider>
    package var pausedProviders: Set<PushProvider>
    package var messages: [StoredMessage]
    /// No REGISTER of an earlier run has a higher CSeq.
    package var registerCeiling: UInt32

    package init(
        users: UserDirectory = UserDirectory(), bucketEntries: [StoredBucketEntry] = [],
        disabledProviders: Set<PushProvider> = [], pausedProviders: Set<PushProvider> = [],
        messages: [StoredMessage] = [], registerCeiling: UInt32 = 0
    ) {
        self.users = users
        self.bucketEntries = bucketEntries
        self.disabledProviders = disabledProviders
        self.pausedProviders = pausedProviders
        self.messages = messages
        self.registerCeiling = registerCeiling
    }
}
