import Testing
import Timekeeping

struct CivilDateTests {
    @Test func `a date leads back to its day`() {
        for day in Int64(-800_000)...1_000_000 where day % 97 == 0 || (11_000...11_400).contains(day) {
            let civil = UnixTime(seconds: day * 86_400).civil
            #expect(CivilDate.days(civil.year, civil.month, civil.day) == day)
        }
    }

    @Test func `known days`() {
        #expect(CivilDate.days(1970, 1, 1) == 0)
        #expect(CivilDate.days(2000, 2, 29) == 11_016)
        #expect(CivilDate.days(2000, 3, 1) == 11_017)
    }

    @Test func `a date is written as people and protocols write it`() {
        let civil = UnixTime(seconds: 1_289_690_940).civil
        #expect(civil.dayText == "2010-11-13")
        #expect(civil.timeText == "23:29:00")
        #expect(civil.headerText == "Sat, 13 Nov 2010 23:29:00 GMT")
        #expect(UnixTime(seconds: 3661).civil.headerText == "Thu, 01 Jan 1970 01:01:01 GMT")
    }
}
