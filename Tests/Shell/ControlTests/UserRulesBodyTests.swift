import Addressing
import Calling
import HTTPServices
import JSON
import ProxyPolicy
import Testing

@testable import Control

@Suite("Rules of users in requests")
struct UserRulesBodyTests {
    private static let desk = RuledDevice(id: DeviceID(rawValue: 70_001), label: "", canBeWoken: false)
    private static let mobile = RuledDevice(id: DeviceID(rawValue: 70_002), label: "urn:uuid:8", canBeWoken: true)

    private static func rules(_ text: String, present: CallRules? = nil) throws(UserRulesBody.Fault) -> CallRules {
        try UserRulesBody(json: Array(text.utf8)).rules(
            devices: [desk, mobile], present: present, knowsZone: { $0 == "Europe/Berlin" })
    }

    private static func fault(_ text: String) -> String? {
        do throws(UserRulesBody.Fault) {
            _ = try rules(text)
            return nil
        } catch {
            return error.sentence
        }
    }

    @Test func `all rules, there and back`() throws {
        let text = """
            {"order":"q-in-turn","groupTime":2.5,
             "devices":[{"device":"\(Self.mobile.id.name)","delay":10},{"device":"push","delay":0.5},{"device":"ordinary","delay":0}],
             "doNotDisturb":{"windows":[{"days":["sun","mon"],"from":"22:00","to":"07:00"},{"from":"12:00","to":"12:30"}],
             "timeZone":"Europe/Berlin","status":486,"except":["boss","a@b.example"]}}
            """
        let rules = try Self.rules(text)
        #expect(rules.order == .inTurn && rules.groupMilliseconds == 2500)
        #expect(rules.delay(of: Self.mobile) == 10_000 && rules.delay(of: Self.desk) == 0)
        #expect(rules.doNotDisturb?.windows.first == .init(days: [0, 6], from: 1320, to: 420))
        #expect(rules.doNotDisturb?.windows.last?.days.count == 7)
        let shown = UserRulesBody(rules, devices: [Self.desk, Self.mobile])
        #expect(
            shown.devices?.first
                == DeviceRuleBody(
                    device: "label:urn:uuid:8", delay: Seconds(milliseconds: 10_000), name: Self.mobile.id.name))
        let json = try JSONValue(of: shown).bytes
        #expect(try Self.rules(String(decoding: json, as: UTF8.self)) == rules)
        #expect(
            shown.lines == [
                "devices ring in the order q-in-turn, 2.5 s between two groups",
                "device \(Self.mobile.id.name): ring 10 s after the call came",
                "devices with push token: ring 0.5 s after the call came",
                "devices without push token: ring 0 s after the call came",
                "do not disturb mon+sun 22:00 to 07:00, daily 12:00 to 12:30 (Europe/Berlin): callers get 486; devices ring for boss, a@b.example",
            ])
        #expect(UserRulesBody(CallRules(), devices: []).lines == ["no rules"])
    }

    @Test func `an empty object has no rules`() throws {
        #expect(try Self.rules("{}").isEmpty)
        #expect(try Self.rules(#"{"order":null,"devices":[]}"#).isEmpty)
    }

    @Test(arguments: [
        "", "[]", "7", #"{"order":"random"}"#, #"{"order":7}"#, #"{"groupTime":0}"#, #"{"groupTime":-1}"#,
        #"{"groupTime":181}"#, #"{"groupTime":1e300}"#, #"{"devices":[{"device":"push","delay":180.001}]}"#,
        #"{"devices":[{"device":"push","delay":-0.001}]}"#, #"{"devices":[{"device":"push","delay":1e18}]}"#,
        #"{"devices":[{"device":"push"}]}"#, #"{"devices":[{"device":"zzzzz","delay":1}]}"#,
        #"{"devices":[{"device":"70003","delay":1}]}"#, #"{"devices":[{"device":"label:","delay":1}]}"#,
        #"{"devices":[{"device":"push","delay":1},{"device":"push","delay":2}]}"#,
        #"{"devices":[{"device":"70001","delay":1,"speed":2}]}"#, #"{"doNotDistrub":{"always":true}}"#,
        #"{"doNotDisturb":{}}"#, #"{"doNotDisturb":{"always":false}}"#,
        #"{"doNotDisturb":{"always":true,"windows":[{"from":"22:00","to":"07:00"}],"timeZone":"Europe/Berlin"}}"#,
        #"{"doNotDisturb":{"windows":[{"from":"22:00","to":"07:00"}]}}"#,
        #"{"doNotDisturb":{"windows":[{"from":"24:00","to":"07:00"}],"timeZone":"Europe/Berlin"}}"#,
        #"{"doNotDisturb":{"windows":[{"from":"7:00","to":"08:00"}],"timeZone":"Europe/Berlin"}}"#,
        #"{"doNotDisturb":{"windows":[{"from":"+7:00","to":"08:00"}],"timeZone":"Europe/Berlin"}}"#,
        #"{"doNotDisturb":{"windows":[{"days":[],"from":"07:00","to":"08:00"}],"timeZone":"Europe/Berlin"}}"#,
        #"{"doNotDisturb":{"windows":[{"days":["monday"],"from":"07:00","to":"08:00"}],"timeZone":"Europe/Berlin"}}"#,
        #"{"doNotDisturb":{"always":true,"timeZone":"../../etc/passwd"}}"#,
        #"{"doNotDisturb":{"always":true,"status":200}}"#, #"{"doNotDisturb":{"always":true,"status":66016}}"#,
        #"{"doNotDisturb":{"always":true,"except":[""]}}"#, #"{"doNotDisturb":{"always":true,"except":["a\nb"]}}"#,
        #"{"doNotDisturb":{"always":true,"untill":"x"}}"#,
    ])
    func `faulty rules are refused with a sentence`(text: String) {
        #expect(Self.fault(text)?.isEmpty == false)
    }

    @Test func `the numbers of entries are limited`() {
        func list(_ entry: String, _ count: Int) -> String {
            "[\(Array(repeating: entry, count: count).joined(separator: ","))]"
        }
        let delays = (0..<33).map { #"{"device":"label:\#($0)","delay":1}"# }.joined(separator: ",")
        #expect(Self.fault(#"{"devices":[\#(delays)]}"#)?.contains("at most 32") == true)
        let window = #"{"from":"07:00","to":"08:00"}"#
        #expect(
            Self.fault(#"{"doNotDisturb":{"timeZone":"Europe/Berlin","windows":\#(list(window, 33))}}"#)?.contains(
                "at most 32") == true)
        #expect(
            Self.fault(#"{"doNotDisturb":{"always":true,"except":\#(list("\"a\"", 33))}}"#)?.contains("at most 32")
                == true)
        #expect(
            Self.fault(#"{"devices":[{"device":"label:\#(String(repeating: "x", count: 257))","delay":1}]}"#) != nil)
    }

    @Test func `a device that has signed out keeps its rule`() throws {
        var present = CallRules()
        let gone = DeviceID(rawValue: 70_009)
        present.delays = [.init(.one(gone, label: ""), milliseconds: 1)]
        let rules = try Self.rules(#"{"devices":[{"device":"\#(gone.name)","delay":3}]}"#, present: present)
        #expect(rules.delays == [.init(.one(gone, label: ""), milliseconds: 3000)])
    }
}
