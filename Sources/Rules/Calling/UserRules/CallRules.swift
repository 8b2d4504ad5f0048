package import Addressing
import Bytes
import JSON
package import ProxyPolicy
package import Registration

/// The rules of one user for calls: which devices ring later than others, and when no device rings.
///
/// Operators set the rules; phones and other users cannot. The rules take precedence over the settings `call.ring-order`
/// and `call.group-time`.
package struct CallRules: Hashable, Sendable, Codable {
    /// A delay for some of the user's devices.
    package struct DeviceDelay: Hashable, Sendable, Codable {
        package var devices: DeviceChoice
        /// The time from the INVITE to the ringing of the devices, in milliseconds.
        package var milliseconds: Int64

        package init(_ devices: DeviceChoice, milliseconds: Int64) {
            self.devices = devices
            self.milliseconds = milliseconds
        }
    }

    /// The order of the user's devices; `nil` for the order in the settings.
    package var order: CallSettings.RingOrder?
    /// The time between two groups of devices, in milliseconds; `nil` for the time in the settings.
    package var groupMilliseconds: Int64?
    /// The delays of devices; the first delay that names a device applies to the device.
    package var delays: [DeviceDelay] = []
    package var doNotDisturb: DoNotDisturb?

    package init() {}

    package var isEmpty: Bool { self == CallRules() }

    /// The largest number of delays of one user.
    package static let mostDelays = 32
    /// The longest delay, and the longest time between two groups: the longest `call.ring-timeout`.
    package static let longestDelay: Int64 = 180_000

    /// The delay of a device, in milliseconds; `nil` if no rule names the device.
    package func delay(of device: RuledDevice) -> Int64? {
        delays.first { $0.devices.contains(device) }?.milliseconds
    }

    /// Replaces the id of a device that was removed, because `successor` is another binding of the same device; returns
    /// whether a rule has changed.
    package mutating func renamed(_ device: DeviceID, to successor: DeviceID) -> Bool {
        var isChanged = false
        for index in delays.indices {
            guard case .one(device, let label) = delays[index].devices else { continue }
            delays[index].devices = .one(successor, label: label)
            isChanged = true
        }
        return isChanged
    }
}

/// The properties of a device that the rules use.
package struct RuledDevice: Hashable, Sendable {
    package let id: DeviceID
    /// The device's label; empty if the device has no label.
    package let label: String
    package let canBeWoken: Bool

    package init(id: DeviceID, label: String, canBeWoken: Bool) {
        self.id = id
        self.label = label
        self.canBeWoken = canBeWoken
    }
}

/// The devices of the user to which a rule applies. A rule can name no device of another user, because only the
/// user's own devices are compared with the rule.
package enum DeviceChoice: Hashable, Sendable, Codable {
    /// All devices that a push can wake.
    case push
    /// All other devices, such as desk phones.
    case ordinary
    /// One device. The label finds the device after the device has signed out and registered again; the label is empty
    /// if the device had none.
    case one(DeviceID, label: String)

    package func contains(_ device: RuledDevice) -> Bool {
        switch self {
        case .push: device.canBeWoken
        case .ordinary: !device.canBeWoken
        case .one(let id, let label): id == device.id || !label.isEmpty && label == device.label
        }
    }

    private enum Key: String, CodingKey { case kind, device, label }

    package init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: Key.self)
        switch try container.decode(String.self, forKey: .kind) {
        case "push": self = .push
        case "ordinary": self = .ordinary
        default:
            self = .one(
                DeviceID(rawValue: try container.decode(UInt64.self, forKey: .device)),
                label: try container.decode(String.self, forKey: .label))
        }
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: Key.self)
        switch self {
        case .push: try container.encode("push", forKey: .kind)
        case .ordinary: try container.encode("ordinary", forKey: .kind)
        case .one(let device, let label):
            try container.encode("one", forKey: .kind)
            try container.encode(device.rawValue, forKey: .device)
            try container.encode(label, forKey: .label)
        }
    }
}

/// A user's rules, as a row of the store.
package struct StoredUserRules: Hashable, Sendable {
    package let aor: AddressOfRecord
    package let rules: CallRules

    package init(aor: AddressOfRecord, rules: CallRules) {
        self.aor = aor
        self.rules = rules
    }

    /// Reads the text of a row; `nil` if a later version of the daemon wrote the row.
    package init?(aor: AddressOfRecord, text: String) {
        guard let value = try? JSONValue(Array(text.utf8)), let rules = try? value.decoded(as: CallRules.self) else {
            return nil
        }
        self.init(aor: aor, rules: rules)
    }

    /// The rules as the text of the row.
    package var text: String { (try? JSONValue(of: rules)).map { String(decoding: $0.bytes, as: UTF8.self) } ?? "{}" }
}
