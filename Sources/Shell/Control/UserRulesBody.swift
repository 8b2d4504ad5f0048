import Addressing
package import Calling
package import HTTPServices
import JSON
import ProxyPolicy
import Timekeeping

/// The rules of a user for calls, in the form that the API and `sippushd user rules` read and write.
package struct UserRulesBody: Codable, Hashable, Sendable, DescribedBody {
    package static let schemaName: String? = "UserRules"
    package static let notes: [String: JSONSchema] = [
        "order": .words("`parallel`, `q` or `q-in-turn`; missing: the setting `call.ring-order`."),
        "groupTime": .words(
            "The time between two groups of devices, in seconds; missing: the setting `call.group-time`."),
        "devices": .words("Devices that ring later than others. The first entry that names a device applies to it."),
    ]

    package var order: String?
    package var groupTime: Seconds?
    package var devices: [DeviceRuleBody]?
    package var doNotDisturb: DoNotDisturbBody?

    package init() {}

    /// The reason why rules are refused, as a sentence for the author of the rules.
    package struct Fault: Error, Hashable {
        package let sentence: String

        init(_ sentence: String) { self.sentence = sentence }
    }
}

/// The delay of some of a user's devices.
package struct DeviceRuleBody: Codable, Hashable, Sendable, DescribedBody {
    package static let notes: [String: JSONSchema] = [
        "device": .words(
            "`push`: all devices that a push can wake; `ordinary`: all other devices; `label:` and a device's label; or the name or id of one device of the user."
        ),
        "delay": .words("How long after the INVITE the devices begin to ring, in seconds, 0 to 180."),
        "name": .words("The present name of the one device. Ignored in requests."),
    ]

    package var device: String
    package var delay: Seconds
    package var name: String?

    package init(device: String, delay: Seconds, name: String? = nil) {
        (self.device, self.delay, self.name) = (device, delay, name)
    }
}

/// The rule by which no device of a user rings.
package struct DoNotDisturbBody: Codable, Hashable, Sendable, DescribedBody {
    package static let notes: [String: JSONSchema] = [
        "always": .words("True: at all times, until the rule is changed."),
        "timeZone": .words("The time zone of the windows, such as `Europe/Berlin`. Required with windows."),
        "status": .number(480...603).described("The final response to the caller: 480 (the default), 486, 600 or 603."),
        "except": .words("Callers for whom the devices ring in spite of the rule: user names, or `user@domain`."),
    ]

    package var always: Bool?
    package var windows: [WindowBody]?
    package var timeZone: String?
    package var status: Int?
    package var except: [String]?

    package init() {}
}

/// A span of time that begins on some days of the week.
package struct WindowBody: Codable, Hashable, Sendable, DescribedBody {
    package static let notes: [String: JSONSchema] = [
        "days": .words("The days on which the window begins: `mon` to `sun`; missing: every day."),
        "from": .words("The local time at which the window begins, such as `22:00`."),
        "to": .words(
            "The local time at which the window ends. If it is not after `from`, the window ends on the next day."),
    ]

    package var days: [String]?
    package var from: String
    package var to: String

    package init(days: [String]? = nil, from: String, to: String) {
        (self.days, self.from, self.to) = (days, from, to)
    }

    package static let dayNames = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
}

// MARK: From rules

extension UserRulesBody {
    /// Shows rules; `devices` are the user's present devices.
    package init(_ rules: CallRules, devices: [RuledDevice]) {
        order = rules.order?.rawValue
        groupTime = rules.groupMilliseconds.map { Seconds(milliseconds: $0) }
        if !rules.delays.isEmpty { self.devices = rules.delays.map { DeviceRuleBody($0, devices: devices) } }
        doNotDisturb = rules.doNotDisturb.map { DoNotDisturbBody($0) }
    }
}

extension DeviceRuleBody {
    fileprivate init(_ rule: CallRules.DeviceDelay, devices: [RuledDevice]) {
        let delay = Seconds(milliseconds: rule.milliseconds)
        switch rule.devices {
        case .push: self.init(device: "push", delay: delay)
        case .ordinary: self.init(device: "ordinary", delay: delay)
        case .one(let id, let label):
            self.init(
                device: label.isEmpty ? id.name : Self.labelPrefix + label, delay: delay,
                name: devices.first { rule.devices.contains($0) }?.id.name)
        }
    }

    static let labelPrefix = "label:"
}

extension DoNotDisturbBody {
    fileprivate init(_ rule: DoNotDisturb) {
        if rule.isAlways { always = true }
        if !rule.windows.isEmpty {
            windows = rule.windows.map { window in
                WindowBody(
                    days: window.days.count == 7
                        ? nil : window.days.map { WindowBody.dayNames[Int($0) % WindowBody.dayNames.count] },
                    from: DoNotDisturb.End.clock(window.from), to: DoNotDisturb.End.clock(window.to))
            }
            timeZone = rule.timeZone
        }
        status = Int(rule.status)
        if !rule.exceptions.isEmpty { except = rule.exceptions }
    }
}

// MARK: To rules

extension UserRulesBody {
    /// Checks the rules. A rule can name only one of the user's `devices`, or a device that has signed out and that the
    /// user's `present` rules name. The closure `knowsZone` says whether the machine knows a time zone.
    package func rules(
        devices: [RuledDevice], present: CallRules? = nil, knowsZone: (String) -> Bool
    ) throws(Fault) -> CallRules {
        var rules = CallRules()
        if let order {
            guard let known = CallSettings.RingOrder(rawValue: order) else {
                throw Fault(
                    "order is one of \(CallSettings.RingOrder.allCases.map(\.rawValue).joined(separator: ", "))")
            }
            rules.order = known
        }
        if let time = groupTime?.milliseconds {
            guard (100...CallRules.longestDelay).contains(time) else { throw Fault("groupTime is 0.1 to 180 seconds") }
            rules.groupMilliseconds = time
        }
        let delays = self.devices ?? []
        guard delays.count <= CallRules.mostDelays else {
            throw Fault("devices has at most \(CallRules.mostDelays) entries")
        }
        for entry in delays { rules.delays.append(try entry.rule(among: devices, present: present)) }
        for (index, delay) in rules.delays.enumerated()
        where rules.delays[..<index].contains(where: { $0.devices == delay.devices }) {
            throw Fault("\(delays[index].device) occurs twice in devices")
        }
        rules.doNotDisturb = try doNotDisturb?.rule(knowsZone: knowsZone)
        return rules
    }
}

extension DeviceRuleBody {
    fileprivate func rule(
        among devices: [RuledDevice], present: CallRules?
    ) throws(UserRulesBody.Fault) -> CallRules.DeviceDelay {
        guard (0...CallRules.longestDelay).contains(delay.milliseconds) else {
            throw UserRulesBody.Fault("the delay of \(device) is not 0 to 180 seconds")
        }
        return CallRules.DeviceDelay(try choice(among: devices, present: present), milliseconds: delay.milliseconds)
    }

    private func choice(among devices: [RuledDevice], present: CallRules?) throws(UserRulesBody.Fault) -> DeviceChoice {
        switch device {
        case "push": return .push
        case "ordinary": return .ordinary
        case let text where text.hasPrefix(Self.labelPrefix):
            let label = String(text.dropFirst(Self.labelPrefix.count))
            guard (1...256).contains(label.utf8.count) else { throw UserRulesBody.Fault("a label has 1 to 256 bytes") }
            return .one(devices.first { $0.label == label }?.id ?? .nobody, label: label)
        default: break
        }
        let named = devices.filter { $0.id.isNamed(device) }
        guard named.count < 2 else { throw UserRulesBody.Fault("several devices are called \(device): use an id") }
        if let one = named.first { return .one(one.id, label: one.label) }
        // A device that has signed out keeps its rule.
        for case .one(let id, let label) in present?.delays.map(\.devices) ?? [] where id.isNamed(device) {
            return .one(id, label: label)
        }
        throw UserRulesBody.Fault("the user has no device called \(device)")
    }
}

extension DoNotDisturbBody {
    fileprivate func rule(knowsZone: (String) -> Bool) throws(UserRulesBody.Fault) -> DoNotDisturb {
        var rule = DoNotDisturb()
        rule.isAlways = always ?? false
        let windows = windows ?? []
        guard rule.isAlways != !windows.isEmpty else {
            throw UserRulesBody.Fault("doNotDisturb has either always, or windows")
        }
        guard windows.count <= DoNotDisturb.mostWindows else {
            throw UserRulesBody.Fault("windows has at most \(DoNotDisturb.mostWindows) entries")
        }
        for window in windows { rule.windows.append(try window.window()) }
        if let zone = timeZone {
            guard knowsZone(zone) else {
                throw UserRulesBody.Fault("this machine knows no time zone \(zone): see /usr/share/zoneinfo")
            }
            rule.timeZone = zone
        } else if !windows.isEmpty {
            throw UserRulesBody.Fault("windows need a timeZone, such as Europe/Berlin")
        }
        if let status {
            guard let code = DoNotDisturb.statuses.first(where: { Int($0) == status }) else {
                throw UserRulesBody.Fault("status is one of 480, 486, 600, 603")
            }
            rule.status = code
        }
        let exceptions = except ?? []
        guard exceptions.count <= DoNotDisturb.mostExceptions else {
            throw UserRulesBody.Fault("except has at most \(DoNotDisturb.mostExceptions) entries")
        }
        guard
            exceptions.allSatisfy({
                (1...256).contains($0.utf8.count) && $0.utf8.allSatisfy { $0 > 0x20 && $0 != 0x7f }
            })
        else { throw UserRulesBody.Fault("a caller in except is a user name, or user@domain") }
        rule.exceptions = exceptions
        return rule
    }
}

extension WindowBody {
    fileprivate func window() throws(UserRulesBody.Fault) -> DoNotDisturb.Window {
        var numbers: [Int64] = []
        for name in days ?? Self.dayNames {
            guard let number = Self.dayNames.firstIndex(of: name.lowercased()) else {
                throw UserRulesBody.Fault("a day is one of \(Self.dayNames.joined(separator: ", "))")
            }
            if !numbers.contains(Int64(number)) { numbers.append(Int64(number)) }
        }
        guard !numbers.isEmpty else { throw UserRulesBody.Fault("days is empty") }
        guard let from = Self.minute(from), let to = Self.minute(to) else {
            throw UserRulesBody.Fault("from and to are times such as 22:00")
        }
        return DoNotDisturb.Window(days: numbers.sorted(), from: from, to: to)
    }

    /// Reads a time of the day, such as `07:00`, in minutes.
    private static func minute(_ text: String) -> Int64? {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count == 2,
            parts.allSatisfy({ $0.utf8.count == 2 && $0.utf8.allSatisfy { $0 >= 0x30 && $0 <= 0x39 } }),
            let hour = Int64(parts[0]), let minute = Int64(parts[1]), hour < 24, minute < 60
        else { return nil }
        return hour * 60 + minute
    }
}

// MARK: Misspelt members

extension UserRulesBody {
    /// Reads the rules in a JSON text. A member that no rule has is refused, because a misspelt rule would have no
    /// effect.
    package init(json bytes: [UInt8]) throws(Fault) {
        let value: JSONValue
        do { value = try JSONValue(bytes) } catch { throw Fault("the rules cannot be read as JSON: \(error)") }
        guard let body = try? value.decoded(as: UserRulesBody.self), let known = try? JSONValue(of: body) else {
            throw Fault("expected an object with order, groupTime, devices and doNotDisturb")
        }
        if let name = Self.unknownMember(of: value, besides: known) { throw Fault("no rule is called \(name)") }
        self = body
    }

    private static func unknownMember(of value: JSONValue, besides known: JSONValue) -> String? {
        switch (value, known) {
        case (.object(let members), .object(let others)):
            for member in members where member.value != .null {
                guard let other = others.first(where: { $0.key == member.key }) else { return member.key }
                if let name = unknownMember(of: member.value, besides: other.value) { return name }
            }
        case (.array(let elements), .array(let others)):
            for (element, other) in zip(elements, others) {
                if let name = unknownMember(of: element, besides: other) { return name }
            }
        default: break
        }
        return nil
    }
}
