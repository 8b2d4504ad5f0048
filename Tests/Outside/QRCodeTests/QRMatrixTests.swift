import Testing

@testable import QRCode

@Suite("QR codes")
struct QRMatrixTests {
    private let code = QRMatrix("https://push.example.net/provision/" + String(repeating: "a", count: 43))

    @Test func `the code has the finder patterns of ISO 18004`() throws {
        let code = try #require(code)
        #expect(code.width == 37)
        for (left, top) in [(0, 0), (30, 0), (0, 30)] {
            for place in 0..<7 {
                // The outer ring is dark, and the ring inside it is light.
                #expect(code.isDark(left + place, top) && code.isDark(left, top + place))
                if (1...5).contains(place) { #expect(!code.isDark(left + place, top + 1)) }
            }
            #expect(code.isDark(left + 3, top + 3))
        }
        // A module outside the code is light.
        #expect(!code.isDark(-1, 0) && !code.isDark(37, 0) && !code.isDark(0, 37))
    }

    @Test func `the drawing for a terminal has each module and the quiet zone`() throws {
        let code = try #require(code)
        let size = code.width + 2 * QRMatrix.quietZone
        #expect(code.lines.count == (size + 1) / 2)
        for (index, line) in code.lines.enumerated() {
            #expect(line.count == size)
            for (column, character) in line.enumerated() {
                let light: (Bool, Bool) =
                    switch character {
                    case "█": (true, true)
                    case "▀": (true, false)
                    case "▄": (false, true)
                    default: (false, false)
                    }
                let (x, y) = (column - QRMatrix.quietZone, 2 * index - QRMatrix.quietZone)
                #expect(light.0 == !code.isDark(x, y))
                if 2 * index + 1 < size { #expect(light.1 == !code.isDark(x, y + 1)) }
            }
        }
    }

    @Test func `coloured lines set both colours and end with the colours of the terminal`() throws {
        let code = try #require(code)
        for (coloured, plain) in zip(code.colouredLines, code.lines) {
            #expect(coloured == "\u{1B}[40;37;1m\(plain)\u{1B}[0m")
        }
    }

    @Test func `the SVG picture has the dark modules`() throws {
        let code = try #require(code)
        let path = try #require(code.svg.split(separator: "d=\"").last?.split(separator: "\"").first)
        var drawn: Set<[Int]> = []
        for run in path.split(separator: "M") {
            let numbers = run.split(whereSeparator: { " hvz-".contains($0) }).compactMap { Int($0) }
            #expect(numbers.count == 5 && numbers[2] == numbers[4])
            for column in numbers[0]..<numbers[0] + numbers[2] { drawn.insert([column - 4, numbers[1] - 4]) }
        }
        for row in 0..<code.width {
            for column in 0..<code.width { #expect(drawn.contains([column, row]) == code.isDark(column, row)) }
        }
    }

    @Test func `the PNG picture has the right chunks and pixels`() throws {
        let code = try #require(code)
        let picture = code.png(scale: 1)
        #expect(Array(picture.prefix(8)) == [137, 80, 78, 71, 13, 10, 26, 10])
        let size = code.width + 2 * QRMatrix.quietZone
        #expect(Array(picture[16..<24]) == [0, 0, 0, UInt8(size), 0, 0, 0, UInt8(size)])
        // The CRC of an empty IEND chunk is the same in every picture.
        #expect(Array(picture.suffix(8)) == [73, 69, 78, 68, 0xAE, 0x42, 0x60, 0x82])
        // The pixels follow the chunk's head, the head of the zlib stream and the head of the only stored block.
        let start = 8 + 25 + 8 + 2 + 5
        let row = 1 + (size + 7) / 8
        for y in 0..<size {
            for x in 0..<size {
                let bit = picture[start + y * row + 1 + x / 8] >> UInt8(7 - x % 8) & 1
                #expect((bit == 0) == code.isDark(x - 4, y - 4))
            }
        }
    }

    @Test func `no code has room for too many bytes, or for none`() {
        #expect(QRMatrix([UInt8](repeating: 1, count: 5000)) == nil)
        #expect(QRMatrix("") == nil)
    }
}
