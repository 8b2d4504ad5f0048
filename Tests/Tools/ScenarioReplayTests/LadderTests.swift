import Testing

@testable import ScenarioReplay

@Suite struct LadderTests {
    private static func event(_ time: Double, _ from: String, _ to: String?, _ label: String) -> Ladder.Event {
        Ladder.Event(time: time, from: from, to: to, label: label)
    }

    @Test func `messages go both ways in the order of their times`() {
        let ladder = Ladder(columns: ["bob", "proxy", "pbx"], width: 14)
        let drawn = ladder.draw([
            Self.event(1012.4, "proxy", "bob", "200 OK"),
            Self.event(1000, "bob", "proxy", "REGISTER"),
            Self.event(1020, "pbx", "proxy", "INVITE"),
        ])
        #expect(
            drawn == [
                "     ms  bob           proxy         pbx",
                "      0  │─ REGISTER ─▶│             │",
                "     12  │◀─── 200 OK ─│             │",
                "     20  │             │◀─── INVITE ─│",
            ])
    }

    @Test func `an arrow may cross a column`() {
        let drawn = Ladder(columns: ["a", "b", "proxy"], width: 10).draw([Self.event(0, "a", "proxy", "BYE")])
        #expect(drawn.last == "      0  │─ BYE ────────────▶│")
    }

    @Test func `a long label is cut`() {
        let drawn = Ladder(columns: ["a", "b"], width: 12).draw([Self.event(0, "a", "b", "123456789")])
        #expect(drawn.last == "      0  │─ 123456… ▶│")
    }

    @Test func `an event of one place is a remark`() {
        let drawn = Ladder(columns: ["a", "b"], width: 12).draw([Self.event(5, "b", nil, "provider disable fcm")])
        #expect(drawn.last == "      0  │           ● provider disable fcm")
    }

    @Test func `a place without a column is left out`() {
        #expect(Ladder(columns: ["a"]).draw([Self.event(0, "x", "a", "BYE")]).count == 1)
    }

    @Test func `events of one time keep their order`() {
        let drawn = Ladder(columns: ["a", "b"], width: 12)
            .draw([Self.event(0, "a", "b", "ONE"), Self.event(0, "a", "b", "TWO")])
        #expect(drawn.dropFirst().map { $0.contains("ONE") } == [true, false])
    }
}
