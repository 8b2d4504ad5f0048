import JSON
import Testing

@Suite("Types as JSON")
struct JSONCodingTests {
    private struct Part: Codable, Equatable {
        var count: Int32
        var flag: Bool?
        var share: Double
    }

    private struct Whole: Codable, Equatable {
        var name: String
        var id: UInt64
        var parts: [Part]
        var notes: [String: String]
        var next: Int64?
    }

    private let whole = Whole(
        name: "a/\"b\"", id: .max, parts: [Part(count: -3, flag: true, share: 0.084), Part(count: 0, share: 30)],
        notes: ["k": "v"], next: nil)

    private static func json(_ text: String) throws -> JSONValue { try JSONValue(Array(text.utf8)) }

    @Test func `members have the order of the type, and the value is read back`() throws {
        let value = try JSONValue(of: whole)
        #expect(
            String(decoding: value.bytes, as: UTF8.self)
                == #"{"name":"a/\"b\"","id":18446744073709551615,"parts":[{"count":-3,"flag":true,"share":0.084},"#
                + #"{"count":0,"share":30}],"notes":{"k":"v"}}"#)
        #expect(try value.decoded() == whole)
        #expect(try JSONValue(value.lines) == value)
        #expect(try JSONValue(of: [whole]).decoded() == [whole])
    }

    @Test func `in lines there is one for each member and element`() throws {
        let value = try Self.json(#"{"a":[1,{}],"b":[]}"#)
        #expect(String(decoding: value.lines, as: UTF8.self) == "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": []\n}")
    }

    @Test func `a member that may be missing may be null, and others are ignored`() throws {
        let part = try Self.json(#"{"share":1e2,"more":[],"flag":null,"count":1}"#)
        #expect(try part.decoded() == Part(count: 1, flag: nil, share: 100))
        #expect(try Self.json("[1,null]").decoded() == [1, nil] as [Int?])
    }

    @Test(arguments: [
        "[]", "1", "null", #"{"count":1}"#, #"{"count":"1","share":1}"#, #"{"count":1.5,"share":1}"#,
        #"{"count":2147483648,"share":1}"#, #"{"count":null,"share":1}"#, #"{"count":1,"share":1,"flag":0}"#,
    ])
    func `members that the type does not have are refused`(text: String) throws {
        let value = try Self.json(text)
        #expect(throws: JSONMismatch.self) { _ = try value.decoded(as: Part.self) }
    }

    @Test func `numbers that JSON has not are refused`() {
        for number in [Double.nan, .infinity] {
            #expect(throws: JSONMismatch.self) { _ = try JSONValue(of: number) }
        }
    }
}
