import Addressing
import TestSupport
import Testing

@testable import HTTPServices

@Suite("Bodies of marks")
struct MarkBodyTests {
    @Test(arguments: [
        "/api/v1/devices/Ab-9_/", "/api/v1/devices/Ab-9_", "https://10darts.com/api/v1/devices/Ab-9_/",
        "https://push.example.net:8443/api/v1/devices/Ab-9_", "HTTP://[::1]/api/v1/devices/Ab-9_/", "Ab-9_",
    ])
    func `relative, absolute or bare`(uri: String) throws {
        #expect(try MarkBody(Array(#"{"device":"\#(uri)"}"#.utf8)).deviceCode == "Ab-9_")
        #expect(try MarkBody(Array(#" {"x":[1,{}],"device" : "\#(uri)","y":null}"#.utf8)).deviceCode == "Ab-9_")
    }

    @Test(arguments: [
        "", "{", "[]", "null", "\"Ab\"", "{}", #"{"device":null}"#, #"{"device":7}"#, #"{"device":["Ab"]}"#,
        #"{"device":{"code":"Ab"}}"#, #"{"Device":"Ab"}"#, #"{"device":""}"#, #"{"device":"/"}"#,
        #"{"device":"/api/v1/devices/"}"#, #"{"device":"/api/v1/devices//"}"#, #"{"device":"/api/v2/devices/Ab/"}"#,
        #"{"device":"/api/v1/devices/Ab/x"}"#, #"{"device":"/api/v1/devices/../x/"}"#, #"{"device":"Ab?x"}"#,
        #"{"device":"/api/v1/devices/Ab/#x"}"#, #"{"device":"https://10darts.com"}"#,
        #"{"device":"https:///api/v1/devices/Ab/"}"#, #"{"device":"ftp://h/api/v1/devices/Ab/"}"#,
        #"{"device":"Ab","device":"Cd"}"#, #"{"device":"Ab"} x"#, #"{"device":"A b"}"#, #"{"device":"Ab\u0000"}"#,
        #"{"device":"é"}"#, "device=Ab",
    ])
    func `malformed bodies are 400`(body: String) {
        #expect { _ = try MarkBody(Array(body.utf8)) } throws: { ($0 as? ServiceProblem)?.status == 400 }
    }

    @Test(arguments: [(1, true), (127, true), (128, true), (129, false), (100_000, false)])
    func `codes of some length`(length: Int, isTaken: Bool) {
        #expect((MarkBody.code(in: String(repeating: "A", count: length)) != nil) == isTaken)
    }
}

@Suite("Codes of devices")
struct DeviceCodeTests {
    private let codes: DeviceCodes

    init() throws { codes = try DeviceCodes(key: Array(0..<32)) }

    @Test(arguments: [1, 71, 0x019a_bcde_f010_0000, 0xffff_ffff_ffff_ffff] as [DeviceID])
    func `a code leads back to its device`(device: DeviceID) throws {
        let code = codes.code(of: device)
        #expect(code.utf8.count == 32)
        #expect(MarkBody.code(in: code) == code[...])
        #expect(codes.device(of: code) == device)
        // The code of a device stays the same after a restart, and differs under another key.
        let again = try DeviceCodes(key: Array(0..<32))
        #expect(again.code(of: device) == code)
        let other = try DeviceCodes(key: Array(1...32))
        #expect(other.device(of: code) == nil && other.code(of: device) != code)
    }

    @Test func `no other text is a code`() {
        let code = codes.code(of: 71)
        for index in code.indices {
            for character in "AB_-z9" where character != code[index] {
                let forged = code[..<index] + String(character) + code[code.index(after: index)...]
                #expect(codes.device(of: forged) == nil)
            }
        }
        for text in ["", "71", code + "A", String(code.dropLast()), code.uppercased(), " " + code.dropFirst()] {
            #expect(text == code || codes.device(of: text) == nil)
        }
    }

    @Test func `codes tell nothing of the order of devices`() {
        let texts = (1...1000).map { codes.code(of: DeviceID(rawValue: UInt64($0))) }
        #expect(Set(texts).count == 1000)
        #expect(Set(texts.map { $0.prefix(4) }).count > 990)
        #expect(Set(texts.map { $0.suffix(4) }).count > 990)
    }
}
