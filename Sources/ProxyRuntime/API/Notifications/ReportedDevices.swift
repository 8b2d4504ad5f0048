import Addressing
import Bytes
import ProxyCore
import PushDelivery
import Registration

/// The devices that have reported tokens, by those: searched for once, then remembered.
///
/// - `@unchecked Sendable` because it lives on the shard's loop and is used there alone.
final class ReportedDevices: @unchecked Sendable {
    struct Wanted: Hashable, Sendable {
        /// See `ReportedTokens.name(of:_:)`.
        let name: ByteString
        /// The account on the device, where it is asked for.
        let selector: ByteString?

        func matches(_ token: PushToken) -> Bool {
            guard ReportedTokens.names(in: token).contains(name) else { return false }
            guard let selector, token.provider == .acrobits else { return true }
            return ReportedTokens.selector(of: token) == selector
        }
    }

    let form: ReportedTokens.Form
    private let shard: ProxyShard
    private let search: DeviceSearch
    private let providers: Set<PushProvider>
    private var known: [Wanted: DeviceID] = [:]

    private static let memory = 10_000

    init(shard: ProxyShard, form: ReportedTokens.Form) {
        self.shard = shard
        self.form = form
        search = DeviceSearch(shard)
        providers =
            switch form {
            case .acrobits: [.acrobits]
            case .direct: [.apns, .apnsDevelopment, .fcm]
            }
    }

    /// `done` is called once, on the loop, perhaps at once; `nil`: no device has that token.
    ///
    /// - Returns: false when too many ask already; then it is not called.
    func find(_ wanted: Wanted, _ done: @escaping (DeviceSearch.FoundDevice?) -> Void) -> Bool {
        if let id = known[wanted] {
            let device = shard.assumeIsolated { shard in shard.withEngine { engine, now in engine.device(id, now: now) }
            }
            if let device, wanted.matches(device.token) {
                done(device)
                return true
            }
            known[wanted] = nil
        }
        return search.find(wanted.name, of: providers, where: wanted.matches) { [self] device in
            if let device {
                if known.count >= Self.memory { known = [:] }
                known[wanted] = device.id
            }
            done(device)
        }
    }
}
