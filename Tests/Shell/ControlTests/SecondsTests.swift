import Foundation
import Testing

@testable import Control

@Suite("Times in JSON")
struct SecondsTests {
    @Test(
        arguments: [
            (1_795_255_923_120, "1795255923.12"), (1_795_255_923_000, "1795255923"),
            (1_795_255_923_999, "1795255923.999"),
            (84, "0.084"), (30_000, "30"), (0, "0"), (-5, "-0.005"),
        ] as [(Int64, String)])
    func `are seconds, and no millisecond is lost`(milliseconds: Int64, text: String) throws {
        let time = Seconds(milliseconds: milliseconds)
        let json = try JSONEncoder().encode([time])
        #expect(String(decoding: json, as: UTF8.self) == "[\(text)]")
        #expect(try JSONDecoder().decode([Seconds].self, from: json) == [time])
    }

    @Test func `each millisecond of some seconds comes back`() throws {
        let times = (0..<5000).map { Seconds(milliseconds: 1_795_255_920_000 + Int64($0)) }
        #expect(try JSONDecoder().decode([Seconds].self, from: JSONEncoder().encode(times)) == times)
    }
}
