package import Addressing
package import Bytes
package import Calling
package import Messaging
package import PushDelivery
package import Registration
package import SIPDialogs
package import SIPGrammar
package import Telemetry
package import Timekeeping
package import UpstreamRegistration

/// Functions that the engine gets from its shell, because they use libraries or are not deterministic.
package struct ProxyFunctions {
    package let seal: DialogSeal
    package let random: () -> UInt64
    /// Parses a stored request again; the result is `nil` only if the request was never parsed before.
    package let reread: (ByteString) -> SIPRequest?
    package let packing: RequestPacking
    package let digest: DigestFunctions
    /// The code that names a device in the daemon's pushes and in the app's reports.
    package let deviceCode: (DeviceID) -> ByteString?
    /// Computes the user part of the contact that the daemon registers at a PBX, from bytes and a stored secret. Equal
    /// bytes give the same user part in every run of the daemon.
    package let upstreamCode: ([UInt8]) -> [UInt8]
    /// Makes and reads the users' contact tokens at PBXs in a cluster; `nil` for a daemon without other nodes.
    package let upstreamSeal: TokenSeal?
    package let log: Log
    /// The offsets of the time zone with the given name; `nil` if the machine does not know the time zone.
    package let zone: (String) -> ZoneOffsets?

    package init(
        seal: DialogSeal, random: @escaping () -> UInt64,
        reread: @escaping (ByteString) -> SIPRequest?, packing: RequestPacking, digest: DigestFunctions,
        deviceCode: @escaping (DeviceID) -> ByteString? = { _ in nil },
        upstreamCode: (([UInt8]) -> [UInt8])? = nil, upstreamSeal: TokenSeal? = nil,
        zone: @escaping (String) -> ZoneOffsets? = { _ in nil },
        log: Log = .silent
    ) {
        self.seal = seal
        self.random = random
        self.reread = reread
        self.packing = packing
        self.digest = digest
        self.deviceCode = deviceCode
        self.upstreamCode = upstreamCode ?? digest.code
        self.upstreamSeal = upstreamSeal
        self.log = log
        self.zone = zone
    }
}

/// The stored state at start-up without the bindings; ``ProxyEngine/restore(_:now:)`` restores the bindings one by one.
package struct StoredState: Sendable {
    package var users: UserDirectory
    package var bucketEntries: [StoredBucketEntry]
    package var disabledProviders: Set<PushProvider>
    package var pausedProviders: Set<PushProvider>
    package var messages: [StoredMessage]
    /// The upper bound of the CSeq numbers in the daemon's REGISTERs of earlier runs.
    package var registerCeiling: UInt32
    /// The rules of users for calls.
    package var userRules: [StoredUserRules]

    package init(
        users: UserDirectory = UserDirectory(), bucketEntries: [StoredBucketEntry] = [],
        disabledProviders: Set<PushProvider> = [], pausedProviders: Set<PushProvider> = [],
        messages: [StoredMessage] = [], registerCeiling: UInt32 = 0, userRules: [StoredUserRules] = []
    ) {
        self.users = users
        self.bucketEntries = bucketEntries
        self.disabledProviders = disabledProviders
        self.pausedProviders = pausedProviders
        self.messages = messages
        self.registerCeiling = registerCeiling
        self.userRules = userRules
    }
}
