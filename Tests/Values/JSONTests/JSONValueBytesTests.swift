import JSON
import Testing

@Suite("JSON values as text")
struct JSONValueBytesTests {
    @Test(arguments: [
        "null", "true", "0.10e+5", "\"\"", "[]", "{}", #"[1,[{"a":"b\"\\\u0001"}],null]"#,
        #"{"a":1,"b":2,"é😀":[false,true]}"#, #""\u2028""#,
    ])
    func `are read back unchanged`(text: String) throws {
        #expect(String(decoding: try JSONValue(Array(text.utf8)).bytes, as: UTF8.self) == text)
    }

    @Test func `lose their blanks`() throws {
        let value = try JSONValue(Array(" { \"a\" : [ 1 , 2 ] } ".utf8))
        #expect(String(decoding: value.bytes, as: UTF8.self) == #"{"a":[1,2]}"#)
    }
}
