import Addressing
import Bytes
import ProxyCore
import ProxyRuntime
import PushDelivery
import Registration

/// Finds devices by the tokens that the devices reported. The first request with a push token searches all devices, and
/// the result is remembered.
///
/// - The class is `@unchecked Sendable`, because only the shard's loop uses it.
final class ReportedDevices: @unchecked Sendable {
    struct Wanted: Hashable, Sendable {
        /// The name of the token that the device reported: see `ReportedTokens.name(of:_:)`.
        let name: ByteString
        /// The account on the device; `nil` if the request names no account.
        let selector: ByteString?
        /// The domains of the request's sender. Users of several domains may have the same token, in several accounts
        /// of one app.
        let domains: DomainScope

        func matches(_ device: DeviceSearch.FoundDevice) -> Bool {
            guard domains.permits(device.domain), ReportedTokens.names(in: device.token).contains(name) else {
                return false
            }
            guard let selector, device.token.provider == .acrobits else { return true }
            return ReportedTokens.selector(of: device.token) == selector
        }
    }

    let form: ReportedTokens.Form
    private let door: ShardDoor
    private let search: DeviceSearch
    private let providers: Set<PushProvider>
    private var known: [Wanted: DeviceID] = [:]

    private static let memory = 10_000

    init(door: ShardDoor, search: DeviceSearch, form: ReportedTokens.Form) {
        self.door = door
        self.form = form
        self.search = search
        providers =
            switch form {
            case .acrobits: [.acrobits]
            case .direct: [.apns, .apnsDevelopment, .fcm]
            }
    }

    /// Returns the device that has the wanted token; `nil` if no device has the token.
    func find(_ wanted: Wanted) async throws(DeviceSearch.Overload) -> DeviceSearch.FoundDevice? {
        if let id = known[wanted] {
            let device = await door.ask(.device(id)) { engine, now in engine.device(id, now: now) }
            if let device, wanted.matches(device) { return device }
            known[wanted] = nil
        }
        guard let device = try await search.find(wanted.name, of: providers, where: wanted.matches) else { return nil }
        if known.count >= Self.memory { known = [:] }
        known[wanted] = device.id
        return device
    }
}
